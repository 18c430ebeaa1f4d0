/** A TLS server ahead of a node, as a proxy or mesh ends TLS: it may demand certificates of its clients. */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import { createServer, type SecureContextOptions } from 'node:tls';
import { join } from './delay-proxy.ts';
import { listen } from './listen.ts';
import type { Certified } from './tls.ts';

/** `clientCa`: PEM text of the authority of certificates that clients must show. */
export async function tlsFront(t: TestContext, node: { readonly url: string }, served: Certified, clientCa?: string) {
  const { port: target, pathname } = new URL(node.url);
  const [shown, asked] = [new Set<string>(), new Set<string>()];
  let failed = 0;
  const contextOf = (files: Certified, ca = clientCa): SecureContextOptions => ({
    cert: readFileSync(files.cert),
    key: readFileSync(files.key),
    ...(ca === undefined ? {} : { ca }),
  });
  const demands = clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: true };
  const server = createServer({ ...contextOf(served), ...demands }, (socket) => {
    const name: unknown = socket.getPeerCertificate().subject?.CN;
    if (typeof name === 'string') shown.add(name);
    if (typeof socket.servername === 'string') asked.add(socket.servername);
    join(socket, connect(Number(target), '127.0.0.1'));
  });
  server.on('tlsClientError', () => (failed += 1));
  const port = await listen(t, server);
  return {
    port,
    /** Base address of the node, by this host name. */
    url: (host = '127.0.0.1') => `https://${host}:${port}${pathname}`,
    /** Common names of the certificates that new connections showed, and names that they asked for, each once. */
    shown,
    asked,
    get failed() {
      return failed;
    },
    /** New connections get another certificate, or are judged by another authority. */
    change: (files: Certified, ca?: string) => server.setSecureContext(contextOf(files, ca)),
  };
}
