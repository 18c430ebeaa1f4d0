/** Gateways with and without keys for the tests of the document, and ways of asking them. */
import type { ReceivedRequest } from '../../src/sample/sample-node.ts';
import type { FakeNode } from '../support/fake-node.ts';
import {
  fetchReply,
  type NodeAddress,
  testGateway,
  type Reply,
  type TestGateway,
  type TestGatewayOptions,
} from '../support/gateway.ts';
import { accessConfig, keysFile, planConfig, testKey, type TestKey } from '../support/keys.ts';
import { ledgerHeaders } from '../support/ledger-info.ts';
import type { Operation } from '../support/openapi.ts';
import { answersIn, exchangeRaw } from '../support/raw-http.ts';
import type { Ending } from '../support/temporary-folder.ts';
import type { Case } from './openapi-cases.ts';

export const ledger = { head: 10_000_000_000n, oldest: 30n };
export const page = { origin: 'https://app.example' };
export const all = testKey('all', { plan: 'bounded' });
const allOperations = planConfig().operations;
export const readsOnly = testKey('reads', { operations: ['read'] });
export const submitsOnly = testKey('submits', { operations: ['submit'] });
/** From elsewhere it is refused. */
export const addressed = testKey('addressed', { addresses: ['192.0.2.1'] });
export const usedUp = testKey('used-up', { plan: 'tiny' });

export const withKey = ({ text }: TestKey) => ({ ...page, authorization: `Bearer ${text}` });

/** A gateway that asks for keys. */
export function keyedGateway(
  t: Ending,
  node: NodeAddress,
  more: Partial<TestGatewayOptions> = {},
): Promise<TestGateway> {
  const { path } = keysFile(t, [all, readsOnly, submitsOnly, addressed, usedUp]);
  const plans = {
    free: planConfig(),
    bounded: planConfig({ requests: 1_000_000, operations: allOperations }),
    tiny: planConfig({ requests: 1, windowMs: 3_600_000 }),
  };
  return testGateway(t, { full: [node], access: accessConfig({ keys: { file: path, redis: false }, plans }), ...more });
}

export async function ask(
  gateway: TestGateway,
  operation: Operation,
  request: Case,
  more: Readonly<Record<string, string>> = {},
): Promise<Reply> {
  const { target = operation.target, headers = {}, body = null } = request;
  const options = { method: operation.method, headers: { ...headers, ...more }, body };
  return fetchReply(new URL(gateway.url).origin + target, options);
}

/** The same as bytes: a request of HTTP/1.1 that no client library would send. */
export async function askRaw(gateway: TestGateway, { method, target }: Operation, ...more: string[]): Promise<Reply> {
  const head = [`${method} ${target} HTTP/1.1`, 'Host: a', 'Connection: close', `Origin: ${page.origin}`, ...more];
  const said = await exchangeRaw(Number(new URL(gateway.url).port), `${head.join('\r\n')}\r\n\r\n`);
  if (method === 'HEAD') return replyOf({ head: said, body: '' });
  return replyOf(answersIn(said)[0] ?? { head: '', body: '' });
}

export function replyOf({ head, body }: { readonly head: string; readonly body: string }): Reply {
  const [first = '', ...lines] = head.trim().split('\r\n');
  const headers = lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.replace(/^[^:]*: ?/, '')]);
  const status = Number(first.split(' ', 2)[1]);
  return { status, headers: Object.fromEntries(headers) as Reply['headers'], body: Buffer.from(body), text: body };
}

/** Makes a node answer so, with ledger headers, to some requests. */
export function answerWith(
  node: FakeNode,
  status: number,
  body: string,
  when: (request: ReceivedRequest) => boolean,
  more: Readonly<Record<string, string>> = {},
): void {
  const headers = { ...ledgerHeaders({ version: ledger.head, chainId: 1 }), ...more };
  node.faults.add({ kind: 'answer', status, body, contentType: 'application/json', headers }, { when });
}
