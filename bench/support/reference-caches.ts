/** Other HTTP caches: nginx, Varnish and HAProxy of Debian, each set up for this load, with one core. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startNginx } from './nginx.ts';
import { hasProgram, packages, startProgram, type ServerProcess } from './process-under-test.ts';
import { freePort } from '../../test/support/free-port.ts';
import { newFolder } from './run-folder.ts';

export interface CacheSettings {
  /** Address of the upstream, with the base path. */
  readonly nodeUrl: string;
  readonly cpu: number | string;
  /** False: only handed on. */
  readonly isCaching?: boolean;
  /** Default: a free one. */
  readonly port?: number;
}

type Cache = (settings: CacheSettings) => Promise<ServerProcess>;

/** Small bodies are cheapest read into memory and written from there, large ones handed to the kernel as files. */
export const nginx: Cache = (settings) =>
  nginxCache(settings, 'nginx', 'sendfile off; tcp_nopush off; output_buffers 1 128k;');
export const nginxSendfile: Cache = (settings) =>
  nginxCache(settings, 'nginx, sendfile', 'sendfile on; tcp_nopush on;');
/** By the name that they have in tables. */
export const eitherNginx = ['nginx', 'nginx, sendfile'];

export const varnish: Cache = async ({ nodeUrl, cpu, isCaching = true, port: given }) => {
  const folder = newFolder('varnish');
  const port = given ?? (await freePort());
  const file = join(folder, 'default.vcl');
  writeFileSync(
    file,
    `vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "${new URL(nodeUrl).port}"; }
sub vcl_recv { return (${isCaching ? 'hash' : 'pass'}); }
sub vcl_backend_response { if (beresp.status == 200) { set beresp.ttl = 1d; } set beresp.grace = 0s; }
`,
  );
  const where = ['-n', folder, '-a', `127.0.0.1:${port}`, '-f', file, '-s', 'malloc,2g', '-T', 'none', '-j', 'none'];
  const threads = ['-p', 'thread_pools=1', '-p', 'thread_pool_min=600', '-p', 'listen_depth=4096'];
  return startProgram({ name: 'Varnish', command: 'varnishd', args: ['-F', ...where, ...threads], cpu, port });
};

export const haproxy: Cache = async ({ nodeUrl, cpu, isCaching = true, port: given }) => {
  const port = given ?? (await freePort());
  const file = join(newFolder('haproxy'), 'haproxy.cfg');
  const store = `http-request cache-use answers
  http-response set-header Cache-Control max-age=86400
  http-response cache-store answers`;
  writeFileSync(
    file,
    `global
  nbthread 1
  maxconn 8000
  tune.bufsize 131072
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  timeout http-keep-alive 600s
  option http-keep-alive
  http-reuse always
cache answers
  total-max-size 256
  max-object-size 200000
  max-age 86400
listen clients
  bind 127.0.0.1:${port} backlog 4096
  ${isCaching ? store : ''}
  server node 127.0.0.1:${new URL(nodeUrl).port} pool-max-conn 512
`,
  );
  return startProgram({ name: 'HAProxy', command: 'haproxy', args: ['-f', file, '-db'], cpu, port });
};

const commands = new Map<Cache, keyof typeof packages>([
  [nginx, 'nginx'],
  [nginxSendfile, 'nginx'],
  [varnish, 'varnishd'],
  [haproxy, 'haproxy'],
]);
const told = new Set<string>();

/** The installed ones of `caches`. Missing ones are reported once, where a reader cannot overlook them. */
export function installed(caches: readonly Cache[]): readonly Cache[] {
  return caches.filter((cache) => {
    const command = commands.get(cache);
    if (command === undefined || hasProgram(command)) return true;
    if (!told.has(command)) {
      process.stderr.write(`\n!!! LEFT OUT: ${command} is not installed (apt-get install ${packages[command]})\n\n`);
    }
    told.add(command);
    return false;
  });
}

/** In the order given. */
export async function startCaches(caches: readonly Cache[], settings: CacheSettings): Promise<ServerProcess[]> {
  const started: ServerProcess[] = [];
  for (const cache of installed(caches)) started.push(await cache(settings));
  return started;
}

/** `open_file_cache`: a hit neither opens nor closes a file. */
function nginxCache({ nodeUrl, cpu, isCaching = true, port }: CacheSettings, name: string, sending: string) {
  const cached = `proxy_cache answers; proxy_cache_key $request_uri; proxy_cache_valid 200 1d;
      proxy_cache_lock on; proxy_cache_lock_timeout 5s;`;
  return startNginx({
    name,
    cpu,
    ...(port === undefined ? {} : { port }),
    http: ({ port, folder }) => `${sending} open_file_cache max=200000 inactive=600s; open_file_cache_valid 600s;
  proxy_cache_path ${folder}/cache levels=1:2 keys_zone=answers:256m max_size=3g inactive=1d use_temp_path=off;
  upstream node { server ${new URL(nodeUrl).host}; keepalive 128; keepalive_requests 1000000000; keepalive_timeout 600s; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection "";
      ${isCaching ? cached : ''}
    }
  }`,
  });
}
