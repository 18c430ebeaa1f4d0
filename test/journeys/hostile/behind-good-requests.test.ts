// RFC 9112 9.3.2: the gateway answers complete requests in order, refuses the bytes behind them, then closes.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, test, type TestContext } from 'node:test';
import { purge } from '../../support/admin.ts';
import { eventually, until } from '../../support/eventually.ts';
import type { FakeNode } from '../../support/fake-node.ts';
import { nodeAndGateway, type TestGatewayOptions, statusesOf } from '../../support/gateway.ts';
import { assertSpecified } from '../../support/hostile.ts';
import { answersIn, rawClient } from '../../support/raw-http.ts';
import { submission } from '../../support/submission.ts';
import type { Ending } from '../../support/temporary-folder.ts';
import { askH1, authority } from '../../support/tls.ts';

const tail = 'HTTP/1.1\r\nHost: a\r\n\r\n';
const resource = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded400';
const view = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });

const get = (target: string): string => `GET ${target} ${tail}`;
const post = (target: string, body: string): string =>
  `POST ${target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;

const submit = post('/v1/transactions', submission());
const readOne = get(`${resource}?ledger_version=600`);
const viewOne = post('/v1/view?ledger_version=601', view);
const passOne = get('/v1/accounts/0x1?ledger_version=602&x=1');
const chunkedView = `POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;

const garbage = 'Q\r\n\r\n';

/** `asked`: complete requests that need a node. */
const rows: readonly (readonly [title: string, bytes: string, asked: number, statuses: readonly number[]])[] = [
  ['garbage behind a submission', submit + garbage, 1, [202, 400]],
  ['garbage behind a read', readOne + garbage, 1, [200, 400]],
  ['garbage behind a view', viewOne + garbage, 1, [200, 400]],
  ['garbage behind a passed read', passOne + garbage, 1, [200, 400]],
  ['garbage behind three requests', viewOne + submit + passOne + garbage, 3, [200, 202, 200, 400]],
  ['garbage behind a refusal behind a submission', `${submit}${get('/v1/a//b')}${garbage}`, 1, [202, 400, 400]],
  [
    'a head that is too large behind a submission',
    `${submit}GET /v1 HTTP/1.1\r\nHost: a\r\nX: ${'y'.repeat(60_000)}\r\n\r\n`,
    1,
    [202, 431],
  ],
  ['a broken chunk behind a submission', `${submit}${chunkedView}xyz\r\n`, 1, [202, 400]],
  ['a broken chunk behind two requests', `${viewOne}${submit}${chunkedView}xyz\r\n`, 2, [200, 202, 400]],
  [
    'chunk extensions that are too large behind a submission',
    `${submit}${chunkedView}5;${'a'.repeat(20_000)}\r\n`,
    1,
    [202, 413],
  ],
  [
    'two lengths behind a submission',
    `${submit}POST /v1/view HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
    1,
    [202, 400],
  ],
  [
    'an ambiguous request, and garbage, behind a submission',
    `${submit}GET /v1 HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${garbage}`,
    1,
    [202, 400],
  ],
  ['a tunnel behind a submission', `${submit}CONNECT a:1 ${tail}`, 1, [202, 405]],
  [
    'garbage behind a request that ends its connection',
    `${submit.replace('Host: a', 'Host: a\r\nConnection: close')}${garbage}`,
    1,
    [202],
  ],
  [
    'garbage behind 40 requests',
    submit + get('/v1/a//b').repeat(39) + garbage,
    1,
    [202, ...Array.from({ length: 40 }, () => 400)],
  ],
];

type Way = 'with the fast path' | 'without the fast path' | 'under TLS';
const isFast = (way: Way): boolean => way !== 'without the fast path';
const ways: readonly Way[] = ['with the fast path', 'without the fast path', 'under TLS'];

const root = authority({ after });
const certified = root.certify('gateway');

async function worldOf(t: Ending, way: Way, times: TestGatewayOptions['times'] = {}) {
  const listen = way === 'under TLS' ? { tls: certified } : { fastPath: isFast(way) };
  const { node, gateway } = await nodeAndGateway(t, { config: { listen }, times });
  const ca = way === 'under TLS' ? root.ca : undefined;
  return { node, gateway, ask: (path: string) => askH1(new URL(gateway.url).origin, { path }, ca) };
}

/** For the tests that have no times of their own, one after the other. */
const usual = {
  'with the fast path': await worldOf({ after }, 'with the fast path'),
  'without the fast path': await worldOf({ after }, 'without the fast path'),
  'under TLS': await worldOf({ after }, 'under TLS'),
} as const;

for (const way of ways) {
  test(`${way}, complete requests to slow nodes are answered ahead of the refusal of the bytes behind them`, async (t) => {
    for (const [title, bytes, asked, statuses] of rows) {
      await t.test(title, async (t) => {
        const world = await slowWorld(t, way);
        const client = world.open();
        client.socket.write(bytes);
        await world.release(asked);

        assertAnswers(await client.received, statuses);
      });
    }
  });

  test(`${way}, a late request is refused behind the answers before it`, async (t) => {
    const world = await slowWorld(t, way, { headMs: 150, requestMs: 200, checkMs: 20 });
    const client = world.open();
    client.socket.write(`${submit}GET /v1/blocks/by_height/1 HTTP/1.1\r\nHost`);
    // The fast path reads a request once those before it are answered.
    if (isFast(way)) await world.release(1);
    await until(async () => (await world.gateway.metric('ledgergate_http_broken_requests_total')) === 1);
    // The request completes too late, and reaches no node.
    client.socket.write(': a\r\n\r\n');
    if (!isFast(way)) await world.release(1);

    assertAnswers(await client.received, [202, 408]);
    assert.equal(world.node.log.countOf('blockByHeight'), 0);
  });

  test(`${way}, a half-close behind a submission leaves the answers up to that one`, async (t) => {
    const halves: typeof rows = [
      ['nothing behind', submit, 1, [202]],
      ['a read ahead', viewOne + submit, 2, [200, 202]],
      ['a cut-off request behind', `${submit}GET /v1/accounts/0x1 HT`, 1, [202, 400]],
      ['a cut-off body behind', `${submit}${post('/v1/view', view).slice(0, -5)}`, 1, [202, 400]],
      ['garbage behind', submit + garbage, 1, [202, 400]],
      ['a refusal behind', submit + get('/v1/a//b'), 1, [202, 400]],
    ];
    for (const [title, bytes, asked, statuses] of halves) {
      await t.test(title, async (t) => {
        const world = await slowWorld(t, way);
        const client = world.open();
        client.socket.end(bytes);
        await world.release(asked);

        assertAnswers(await client.received, statuses);
      });
    }
  });

  test(`${way}, a half-close leaves finished answers, and aborts waiting reads`, async (t) => {
    const world = await slowWorld(t, way);
    const client = world.open();
    client.socket.end(get('/v1/a//b').repeat(10) + viewOne);

    assertAnswers(
      await client.received,
      Array.from({ length: 10 }, () => 400),
    );
    await world.release(0);
  });
}

// Under TLS, a plain Node server and client cut such an answer too.
for (const way of ways.slice(0, 2)) {
  test(`${way}, a half-close during a long answer leaves the whole answer`, async (t) => {
    const world = await slowWorld(t, way);
    const client = world.open();
    client.socket.write(get('/v1/accounts/0x1/resource/0x1::ledgergate_sample::Padded8000000?ledger_version=600'));
    await world.release(1);
    await once(client.socket, 'data');
    client.socket.pause();
    client.socket.end();
    await once(client.socket, 'finish');
    // The gateway handles this half-close ahead of the next request.
    await world.ask('/v1');
    await world.ask('/v1');
    client.socket.resume();
    const received = await client.received;

    assert.equal(received.length - received.indexOf('\r\n\r\n') - 4, 8_000_000);
  });
}

test('a hang-up behind malformed bytes aborts the reads before them', async (t) => {
  const world = await slowWorld(t, 'without the fast path');
  const client = world.open();
  const arrived = world.node.log.next();
  client.socket.write(viewOne + garbage);
  await arrived;
  client.socket.destroy();

  // The node still withholds its answer.
  await until(async () => (await world.gateway.metric('ledgergate_http_connections')) === 0);
  await world.release(0);
});

test('a reset behind CONNECT does not end the gateway', async (t) => {
  const world = await slowWorld(t, 'without the fast path');
  for (const before of ['', viewOne]) {
    const client = world.open();
    const arrived = before === '' ? undefined : world.node.log.next();
    client.socket.write(`${before}CONNECT a:1 ${tail}`);
    await arrived;
    client.socket.resetAndDestroy();
  }
  await until(async () => (await world.gateway.metric('ledgergate_http_connections')) === 0);
  await world.release(0);

  assert.equal((await world.gateway.get('/a//b')).status, 400);
});

/** `release`: the node withholds its answers until then. */
async function slowWorld(t: TestContext, way: Way, times?: TestGatewayOptions['times']) {
  const { node, gateway, ask } = times === undefined ? usual[way] : await worldOf(t, way, times);
  node.faults.clear();
  await purge(gateway, { everything: true });
  // Shares a state with reads of "latest" before the node slows down.
  await ask('/v1');
  node.log.clear();
  const release = node.hold({ when: ({ route }) => route !== 'ledgerInfo' });
  t.after(() => release());
  return {
    node,
    gateway,
    ask,
    open: () => rawClient(t, gateway.port, way === 'under TLS' ? root.ca : undefined),
    /** Releases the answers once the node has this many requests; the fast path sends them one by one. */
    async release(asked: number): Promise<void> {
      if (!isFast(way)) await reads(node, asked);
      else if (asked > 0) await reads(node, 1);
      release();
    },
  };
}

function reads(node: FakeNode, asked: number): Promise<number> {
  return eventually(
    () => Promise.resolve(node.reads),
    (count) => count >= asked,
  );
}

function assertAnswers(received: string, statuses: readonly number[]): void {
  const answers = answersIn(received);
  assert.deepEqual(statusesOf(answers), statuses, received);
  for (const answer of answers) {
    if (answer.status >= 400) assertSpecified(answer);
    assert.match(answer.head, /^Date: \w{3}, .* GMT\r$/m);
    if (answer.status === 405) assert.match(answer.head, /^Allow: GET, HEAD\r$/m);
    // The node's own answer to a submission passes through.
    if (answer.status !== 202) assert.match(answer.head, /^Vary: Accept, Accept-Encoding, Origin\r$/im);
  }
}
