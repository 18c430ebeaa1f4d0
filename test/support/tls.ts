/** Certificates of a root made for the test, and clients that trust it. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { request as h1Request, type IncomingMessage } from 'node:http';
import { connect as connectH2, type ClientHttp2Session, type IncomingHttpHeaders } from 'node:http2';
import { request as h1sRequest } from 'node:https';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { connect as connectTls, type ConnectionOptions, type TLSSocket } from 'node:tls';
import { defaultCiphers } from '../../src/config/schema/schema-parts.ts';
import { type Ending, putFile, temporaryFolder } from './temporary-folder.ts';

export interface Certified {
  /** Names of the files. */
  readonly cert: string;
  readonly key: string;
  readonly ciphers: readonly string[];
}

export interface Authority {
  /** PEM text of the root. */
  readonly ca: string;
  /** Its file. */
  readonly file: string;
  readonly folder: string;
  /** A certificate for 127.0.0.1, localhost and rpc.example, in files of its own. Ends after so many days; default 30. */
  certify(name: string, days?: number, key?: 'ec' | 'rsa'): Certified;
  /** A certificate that ends at this second. */
  certifyUntil(name: string, end: Date): Certified;
}

/** A root of its own for each test, in a folder that goes with it. */
export function authority(t: Ending): Authority {
  const folder = temporaryFolder(t);
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.crt', '-days', '30', '-subj', '/CN=test root');
  writeFileSync(join(folder, 'names'), 'subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:rpc.example\n');
  const file = join(folder, 'ca.crt');
  const ofName = (name: string): Certified => ({
    cert: join(folder, `${name}.crt`),
    key: join(folder, `${name}.key`),
    ciphers: defaultCiphers,
  });
  return {
    ca: readFileSync(file, 'utf8'),
    file,
    folder,
    certifyUntil(name, end) {
      // Days are the least that `openssl x509` knows.
      const database = 'database=index\nnew_certs_dir=.\nserial=serial\nunique_subject=no';
      const policy = 'default_md=sha256\npolicy=any\n[any]\ncommonName=supplied';
      writeFileSync(join(folder, 'index'), '');
      writeFileSync(join(folder, 'ca.cnf'), `[ca]\ndefault_ca=it\n[it]\n${database}\n${policy}\n`);
      openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
      const times = ['-startdate', utc(new Date(Date.now() - 60_000)), '-enddate', utc(end)];
      const by = ['-config', 'ca.cnf', '-cert', 'ca.crt', '-keyfile', 'ca.key', '-extfile', 'names', '-rand_serial'];
      openssl('ca', '-batch', '-notext', ...by, ...times, '-in', `${name}.csr`, '-out', `${name}.crt`);
      return ofName(name);
    },
    certify(name, days = 30, kind = 'ec') {
      const own = kind === 'ec' ? key : ['-newkey', 'rsa:2048', '-nodes'];
      openssl('req', ...own, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`);
      const by = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', String(days), '-extfile', 'names'];
      openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.crt`, ...by);
      return ofName(name);
    },
  };
}

/** As `openssl ca` takes it. */
function utc(date: Date): string {
  return `${date
    .toISOString()
    .replace(/[-:T]|\.\d+/g, '')
    .slice(2, -1)}Z`;
}

/** Puts other files in the place of those that are served, as renewals do: whole, one after the other. */
export function replaceFiles(served: Certified, by: Certified): void {
  for (const part of ['cert', 'key'] as const) putFile(served[part], readFileSync(by[part]));
}

export interface Asked {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

/** Status, headers as they came in lower case, and body. */
export interface Told {
  readonly status: number;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
}

/** Over HTTP/1.1, with TLS where the address says so, over a connection of its own. */
export function askH1(origin: string, asked: Asked, ca?: string): Promise<Told> {
  const { method = 'GET', path, headers = {}, body } = asked;
  const send = origin.startsWith('https:') ? h1sRequest : h1Request;
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  const options = { method, headers: { ...length, ...headers }, agent: false, ...(ca === undefined ? {} : { ca }) };
  return new Promise((resolve, reject) => {
    const request = send(origin, { ...options, path }, (response: IncomingMessage) => {
      const { rawHeaders, statusCode: status = 0 } = response;
      const pairs = rawHeaders.flatMap((name, at) =>
        at % 2 === 0 ? [[name.toLowerCase(), rawHeaders[at + 1] ?? ''] as const] : [],
      );
      buffer(response).then((body) => resolve({ status, headers: pairs, body }), reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

/** Over a session that is there already. Rejects when the stream is reset. */
export function askH2(session: ClientHttp2Session, asked: Asked): Promise<Told> {
  const { method = 'GET', path, headers = {}, body } = asked;
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  const endStream = body === undefined;
  return new Promise((resolve, reject) => {
    const stream = session.request({ ':method': method, ':path': path, ...length, ...headers }, { endStream });
    stream.on('error', reject);
    const onClose = (): void => reject(new Error(`the stream closed without an answer: ${stream.rstCode}`));
    stream.once('close', onClose);
    stream.once('response', (told: IncomingHttpHeaders, _flags: number, raw: readonly string[]) => {
      // A stream that closes ahead of the request's end does so before the answer has been read.
      stream.off('close', onClose);
      const pairs = raw.flatMap((name, at) =>
        at % 2 === 0 && !name.startsWith(':') ? [[name, raw[at + 1] ?? ''] as const] : [],
      );
      buffer(stream).then((body) => resolve({ status: Number(told[':status']), headers: pairs, body }), reject);
    });
    if (body !== undefined) stream.end(body);
  });
}

/** A session that ends with the test. */
export async function h2Session(t: TestContext, origin: string, ca: string): Promise<ClientHttp2Session> {
  const session = connectH2(origin, { ca });
  t.after(() => session.destroy());
  session.on('error', () => undefined);
  await new Promise<void>((resolve, reject) => {
    session.once('connect', () => resolve());
    session.once('error', reject);
  });
  return session;
}

/** A TLS connection and nothing on it. */
export function tlsSocket(t: TestContext, port: number, options: ConnectionOptions): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: '127.0.0.1', port, ...options }, () => resolve(socket));
    t.after(() => socket.destroy());
    socket.on('error', reject);
  });
}
