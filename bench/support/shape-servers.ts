/** Servers that cache, check and count what a shape of requests needs: the gateway, and nginx set up to do the same. */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createKey } from '../../src/access/keys/principals.ts';
import type { Shape } from './client-shapes.ts';
import { startGateway } from './gateway.ts';
import { startNginx } from './nginx.ts';
import type { ServerProcess } from './process-under-test.ts';
import { newFolder } from './run-folder.ts';

/** A certificate for 127.0.0.1 that is its own root. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** PEM text. */
  readonly ca: string;
}

/** Valid for two days. Throws when openssl fails. */
export function createCertificate(): Certificate {
  const folder = newFolder('tls');
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', keyFile];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = spawnSync('openssl', ['req', '-x509', ...key, '-out', certFile, '-days', '2', ...names]);
  if (made.status !== 0) throw new Error(`openssl made no certificate: ${String(made.stderr)}`);
  return { certFile, keyFile, ca: readFileSync(certFile, 'utf8') };
}

export interface ShapeSettings {
  /** Address of the node, with the base path. */
  readonly nodeUrl: string;
  readonly cpu: number;
  readonly certificate: Certificate;
  readonly shape: Pick<Shape, 'hasKey' | 'hasTls'>;
}

/** Text of the only key. */
const { key: clientKey, sha256 } = createKey();
export { clientKey };
/** Requests in a window; no run comes near. */
const mostRequests = 100_000_000;

/** `checkout`: folder of another checkout. */
export function startShapeGateway(name: string, settings: ShapeSettings, checkout?: string): Promise<ServerProcess> {
  const { nodeUrl, cpu, certificate, shape } = settings;
  const tls = { cert: certificate.certFile, key: certificate.keyFile };
  const listen = { host: '127.0.0.1', port: 0, ...(shape.hasTls === true ? { tls } : {}) };
  const config = { listen, ...(shape.hasKey === true ? { access: accessOf() } : {}) };
  return startGateway({ name, nodeUrl, cpu, config, ...(checkout === undefined ? {} : { checkout }) });
}

/** Keys by a file, and a plan that counts. */
export function accessOf(): object {
  const file = join(newFolder('keys'), 'keys.yaml');
  const keys = [{ name: 'bench', sha256, plan: 'paid' }];
  // JSON is YAML.
  writeFileSync(file, JSON.stringify({ keys }), { mode: 0o600 });
  return { keys: { file }, plans: { paid: { requests: mostRequests } } };
}

/** POST is kept by target and body, keys are looked up in a map, their requests counted, and the TLS cipher is the gateway's. */
export function startShapeNginx({ nodeUrl, cpu, certificate, shape }: ShapeSettings): Promise<ServerProcess> {
  const { certFile, keyFile } = certificate;
  const isTls = shape.hasTls === true;
  const tls = `ssl_certificate ${certFile}; ssl_certificate_key ${keyFile};
    ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;`;
  const counted = `if ($client = "") { return 401; } limit_req zone=plan burst=1000000 nodelay;`;
  return startNginx({
    name: 'nginx',
    cpu,
    scheme: isTls ? 'https' : 'http',
    http: ({ port, folder }) => `sendfile off; tcp_nopush off; output_buffers 1 128k; client_body_buffer_size 128k;
  open_file_cache max=200000 inactive=600s; open_file_cache_valid 600s; map_hash_bucket_size 256;
  map $http_authorization $client { default ""; "Bearer ${clientKey}" "bench"; }
  limit_req_zone $client zone=plan:10m rate=1000000r/s;
  proxy_cache_path ${folder}/cache levels=1:2 keys_zone=answers:256m max_size=3g inactive=1d use_temp_path=off;
  upstream node { server ${new URL(nodeUrl).host}; keepalive 128; keepalive_requests 1000000000; keepalive_timeout 600s; }
  server {
    listen 127.0.0.1:${port} ${isTls ? 'ssl http2' : ''} backlog=4096;
    ${isTls ? tls : ''}
    location / {
      ${shape.hasKey === true ? counted : ''}
      proxy_pass http://node; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_cache answers; proxy_cache_methods GET HEAD POST; proxy_cache_key "$request_uri|$request_body";
      proxy_cache_valid 200 1d; proxy_cache_lock on; proxy_cache_lock_timeout 5s;
    }
  }`,
  });
}
