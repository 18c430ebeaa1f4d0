/** Rows of hostile requests: what is sent, what is answered, and what the node saw of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReceivedRequest } from '../../src/sample/sample-node.ts';
import { nodeAndGateway, statusesOf } from './gateway.ts';
import { answersIn, exchangeRaw, type RawAnswer } from './raw-http.ts';

/**
 * Bytes, a character for each, and the status of their answer. `ends`: `closed` when the request behind them is not
 * answered, because nothing behind the hostile bytes is believed. `node`: method and target of what the node received.
 */
type HostileRow = readonly [title: string, bytes: string, status: number, ends: 'kept' | 'closed', ...node: string[]];

/** Behind the hostile bytes on the same connection: answered 404 here, if at all, and the connection ends with it. */
const canary = 'GET /canary HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n';

/** What a well-formed client's request can hold by the time it reaches a node. */
const framing = ['host', 'connection', 'content-length', 'content-type', 'content-encoding'];
const told = ['accept', 'user-agent', 'traceparent', 'tracestate', 'x-request-id', 'x-node-client', 'if-none-match'];
const wellFormed: ReadonlySet<string> = new Set([...framing, ...told]);

/** One test for each row, over one gateway. */
export function testHostile(what: string, rows: readonly HostileRow[]): void {
  test(what, async (t) => {
    const { node, gateway } = await nodeAndGateway(t);
    for (const [title, bytes, status, ends, ...expected] of rows) {
      await t.test(`${title}: ${status}, ${ends}`, async () => {
        node.log.clear();
        const said = await exchangeRaw(gateway.port, Buffer.from(bytes + canary, 'latin1'));

        const given = answersIn(said);
        assert.deepEqual(statusesOf(given), ends === 'kept' ? [status, 404] : [status], said);
        const seen = node.log.received.filter(({ route }) => route !== 'ledgerInfo');
        assert.deepEqual(
          seen.map(({ method, url }) => `${method} ${url}`),
          expected,
        );
        for (const request of node.log.received) assertWellFormed(request, new URL(node.url).host);
        if (expected.length === 0) for (const answer of given) assertSpecified(answer);
      });
    }
  });
}

/** Nothing in it that a well-formed client could not have caused; and its host is the node's. */
export function assertWellFormed({ url, headers }: ReceivedRequest, host: string): void {
  assert.match(url, /^\/v1(?:[/?][!-~]*)?$/);
  assert.equal(headers.host, host);
  assert.deepEqual(
    Object.keys(headers).filter((name) => !wellFormed.has(name)),
    [],
  );
}

/** A refusal has the specified body and the ledger headers, and says nothing of what is behind the gateway. */
export function assertSpecified({ status, head, body }: RawAnswer, code = 'web_framework_error'): void {
  assert.doesNotMatch(head + body, /127\.0\.0\.1|full-0|node_modules|secret/);
  assert.match(head, /^X-Node-Ledger-Version: 900\r$/im);
  if (status < 400) return;
  const error = JSON.parse(body) as Readonly<Record<string, unknown>>;
  assert.deepEqual(Object.keys(error), ['message', 'error_code', 'vm_error_code']);
  assert.deepEqual([error['error_code'], error['vm_error_code']], [status < 500 ? code : 'internal_error', null]);
}
