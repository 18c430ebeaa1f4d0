/**
 * Hits with a token of an issuer (JWT) beside hits with a key, at one gateway that has both: its compiled code is the same
 * for both, and rounds alternate.
 */
import { generateKeyPairSync, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startCheapNode } from './support/cheap-node.ts';
import type { Shape } from './support/client-shapes.ts';
import { loadCpu, requireHits, runMeasuredContest, serverCpu, type Standing } from './support/contest.ts';
import { startGateway } from './support/gateway.ts';
import { optionsOf, type Flags, type Part } from './support/options.ts';
import type { ServerProcess } from './support/process-under-test.ts';
import { cpu, cpuBeside, howTaken, p99, rate, standingsTable } from './support/report.ts';
import { newFolder } from './support/run-folder.ts';
import { fill, measureShape } from './support/shape-load.ts';
import { accessOf, clientKey, createCertificate, type Certificate } from './support/shape-servers.ts';

const loads: readonly Shape[] = [
  { title: 'GET', reads: 'get' },
  { title: 'GET and view', reads: 'mixed' },
  { title: 'GET and view, TLS', reads: 'mixed', hasTls: true },
];

/** The section `access.jwt`, and a token of 600 characters by a key of RSA, as issuers mostly have them. */
function createToken(): { readonly jwt: object; readonly token: string } {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const jwks = join(newFolder('issuer'), 'jwks.json');
  writeFileSync(jwks, JSON.stringify({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'bench' }] }));
  const [issuer, audience] = ['https://idp.example/', 'https://rpc.example'];
  const exp = Math.floor(Date.now() / 1_000) + 86_400;
  const parts = [
    { alg: 'RS256', typ: 'JWT', kid: 'bench' },
    { iss: issuer, aud: audience, exp, sub: 'auth0|6530f1c2a4b7e90012345678', plan: 'paid', scope: 'read view' },
  ];
  const text = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
  const signature = sign('sha256', Buffer.from(text), privateKey).toString('base64url');
  return { jwt: { issuer, audience, jwks }, token: `${text}.${signature}` };
}

/** One gateway under two names. */
async function start(
  nodeUrl: string,
  jwt: object,
  { hasTls }: Shape,
  { certFile, keyFile }: Certificate,
): Promise<readonly ServerProcess[]> {
  const tls = hasTls === true ? { tls: { cert: certFile, key: keyFile } } : {};
  const listen = { host: '127.0.0.1', port: 0, ...tls };
  const config = { listen, access: { ...accessOf(), jwt } };
  const gateway = await startGateway({ name: 'key', nodeUrl, cpu: serverCpu, config });
  return [gateway, { ...gateway, name: 'token', stop: () => undefined }];
}

export const tokens: Part = {
  name: 'tokens',
  heading: 'Tokens beside keys',
  async run(flags: Flags) {
    const options = optionsOf(flags, { starts: 2 });
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const certificate = createCertificate();
    const { jwt, token } = createToken();
    const sentBy = ({ name }: ServerProcess, shape: Shape): Shape => ({
      ...shape,
      authorization: `Bearer ${name === 'token' ? token : clientKey}`,
    });
    const standings = new Map<Shape, readonly Standing[]>();
    for (const shape of loads) {
      const one = await runMeasuredContest({
        options,
        requests: [shape],
        start: () => start(nodeUrl, jwt, shape, certificate),
        prepare: (server, asked) => fill(server, sentBy(server, asked), certificate.ca),
        measure: (server, asked, load) => measureShape(server, sentBy(server, asked), load),
        reads: () => node.reads(),
      });
      for (const [key, value] of one) standings.set(key, value);
    }
    node.server.stop();
    requireHits(standings);
    const columns = { 'req/s': rate, 'CPU µs/request': cpu, '× key': cpuBeside('key'), 'p99 ms': p99 };
    return `Hits with a token of ${token.length} characters (RS256) and with a key, at one gateway that has both, limited by the same plan. ${options.connections} connections, one core each. ${howTaken(options)}. "× key" is the key's processor time per request divided by the row's: the token's is to be 0.95 or more.

${standingsTable(standings, columns)}`;
  },
};
