/** nginx with one worker and the inside of an `http` block, as a server under test or as a node. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startProgram, type ServerProcess } from './process-under-test.ts';
import { freePort } from '../../test/support/free-port.ts';
import { newFolder } from './run-folder.ts';

export interface NginxSettings {
  readonly name: string;
  readonly cpu: number | string;
  /** Default: a free one. */
  readonly port?: number;
  /** Default: http. */
  readonly scheme?: 'http' | 'https';
  /** Lines of the `http` block for a port to listen on and a folder to write to. */
  readonly http: (where: { readonly port: number; readonly folder: string }) => string;
}

export async function startNginx(settings: NginxSettings): Promise<ServerProcess> {
  const { name, cpu, http, port: given, scheme = 'http' } = settings;
  const folder = newFolder('nginx');
  const port = given ?? (await freePort());
  const parts = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  mkdirSync(join(folder, 'temporary'));
  const file = join(folder, 'nginx.conf');
  writeFileSync(
    file,
    `daemon off; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log crit; worker_rlimit_nofile 20000;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 8192; multi_accept on; }
http {
  ${parts.map((part) => `${part}_temp_path ${folder}/temporary/${part};`).join(' ')}
  access_log off; server_tokens off; keepalive_requests 1000000000; keepalive_timeout 600s;
  large_client_header_buffers 4 32k;
  ${http({ port, folder })}
}`,
  );
  return startProgram({ name, command: 'nginx', args: ['-c', file, '-p', folder], cpu, port, scheme });
}
