// The target cache and the cache of type tags keep no text of the bytes that a request came with.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HeaderBlocks, readHead } from '../../../src/proxy/http/fast-path/request-head.ts';
import { ownCopy } from '../../../src/proxy/http/target.ts';
import { parsePosted, parseTarget, type RouteParts } from '../../../src/proxy/routes/read-answer.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { Submissions } from '../../../src/proxy/routes/submissions.ts';
import { TargetCache } from '../../../src/proxy/http/target-cache.ts';
import { heldBytes } from '../../support/heap.ts';

const json = 'Host: a\r\nContent-Type: application/json\r\n';
const item = '{"key_type":"u64","value_type":"u64","key":"5"}';

function post(target: string, body: string): string {
  return `POST ${target} HTTP/1.1\r\n${json}Content-Length: ${body.length}\r\n\r\n${body}`;
}

const rows: Readonly<Record<string, (index: number) => string>> = {
  'a table item': (index) => post(`/v1/tables/0x1${index.toString(16).padStart(63, '0')}/item`, item),
  'a view': (index) =>
    post('/v1/view', `{"function":"0x1::ledgergate_sample::f${index}","type_arguments":[],"arguments":[]}`),
  'a view that is sent byte for byte': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":[{"a":1,"a":1}]}`),
  'a view above 8 kB': (index) =>
    post('/v1/view', `{"function":"0x1::m::f${index}","type_arguments":[],"arguments":["${'a'.repeat(8_192)}"]}`),
  'a resource under a plain type': (index) =>
    `GET /v1/accounts/0x1/resource/0x1::ledgergate_sample::T${index} HTTP/1.1\r\n${json}\r\n`,
  'an account': (index) => `GET /v1/accounts/0x1${index.toString(16).padStart(63, '0')} HTTP/1.1\r\n${json}\r\n`,
};

for (const [what, requestOf] of Object.entries(rows)) {
  test(`${what} in 60 kB of pipelined requests keeps below 4 kB`, () => {
    const router = new Router({ basePath: '/v1', submissions: new Submissions() });
    const reader = { locate: () => undefined, isLarge: () => false };
    const parts = { reader, router, targets: new TargetCache() } as unknown as RouteParts;
    const blocks = new HeaderBlocks();
    const count = 300;
    const send = (index: number): void => {
      const chunk = Buffer.from(requestOf(index).padEnd(60_000, 'GET /v1 HTTP/1.1\r\n'));
      const head = readHead(chunk.toString('latin1'), 0, blocks);
      assert.ok(head !== undefined);
      const { method, bodyFrom, end } = head;
      // As the fast path matches a new target.
      const target = ownCopy(head.target);
      const match = router.match(method, target);
      const contentType = 'application/json';
      const body = chunk.subarray(bodyFrom, end);
      const read =
        method === 'POST'
          ? parsePosted(parts, match, { target, accept: undefined, contentType, body })
          : parseTarget(parts, match, undefined);
      assert.ok(read !== undefined);
    };
    // Compiled code of the first requests is no text of theirs.
    for (let index = 0; index < count; index += 1) send(index);
    const before = heldBytes();
    for (let index = count; index < 2 * count; index += 1) send(index);

    const perRequest = (heldBytes() - before) / count;
    assert.ok(perRequest < 4_096, `${Math.round(perRequest)} bytes`);
    assert.ok(parts.targets.find('/', 'json') === undefined);
  });
}
