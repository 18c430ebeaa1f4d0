/** A real nginx, where there is one, with the configuration of a test. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import process from 'node:process';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { temporaryFolder } from './temporary-folder.ts';

const path = { PATH: `${process.env['PATH']}:/usr/sbin` };
const isInstalled = spawnSync('sh', ['-c', 'command -v nginx'], { env: path }).status === 0;

/** For the `skip` of a test, as for the browser. */
export function withoutNginx(): string | false {
  if (isInstalled || process.env['CI'] !== undefined) return false;
  return 'NOT TESTED BEHIND NGINX: nginx is not installed (apt-get install nginx-light)';
}

/** Starts nginx on a free port with `http`, the inside of its http block; `PORT` in it is that port. Its base address. */
export async function startNginx(t: TestContext, http: string): Promise<string> {
  const folder = temporaryFolder(t);
  mkdirSync(join(folder, 'tmp'));
  const port = await freePort();
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${folder}/tmp/${name};`,
  );
  const file = join(folder, 'nginx.conf');
  writeFileSync(
    file,
    `${process.getuid?.() === 0 ? 'user root;' : ''} daemon off; worker_processes 1; pid ${folder}/pid; error_log stderr warn;
     events { worker_connections 256; }
     http { access_log off; ${temporary.join(' ')}
     ${http.replaceAll('PORT', String(port)).replaceAll('/var/cache/nginx/ledgergate', `${folder}/cache`)} }`,
  );
  const child = spawn('nginx', ['-p', folder, '-c', file], { env: path, stdio: ['ignore', 'ignore', 'pipe'] });
  const said: string[] = [];
  child.stderr.on('data', (chunk) => said.push(String(chunk)));
  t.after(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await once(child, 'exit');
  });
  for (let tries = 0; !(await listens(port)); tries += 1) {
    if (child.exitCode !== null || tries > 200) throw new Error(`nginx does not start: ${said.join('')}`);
    await sleep(25);
  }
  return `http://127.0.0.1:${port}`;
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
