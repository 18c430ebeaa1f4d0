// Rights by function: views that a plan denies reach no node, however they are spelled and over whatever they come.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Client } from 'undici';
import { EventReader, testStreams } from '../../support/event-reader.ts';
import { type Spelling, other, spelled, spellings, viewBody } from '../../support/function-spellings.ts';
import {
  fetchReply,
  nodeAndGateway,
  type TestGateway,
  type TestGatewayOptions,
  statusesOf,
} from '../../support/gateway.ts';
import { bearer, keyedGateway, replan } from '../../support/keyed-gateway.ts';
import { accessConfig, planConfig, testKey, type TestKey } from '../../support/keys.ts';
import { exchangeRaw } from '../../support/raw-http.ts';
import { askH2, authority, h2Session } from '../../support/tls.ts';

const plans = {
  free: planConfig(),
  denied: planConfig({ views: { deny: [spelled] } }),
  listed: planConfig({ views: { allow: [other, '0x2::*'] } }),
};

/** Sends a spelling with a key; resolves to the status. */
type Send = (spelling: Spelling, key: TestKey, query: string) => Promise<number>;

interface Answer {
  readonly status: number;
  readonly code: unknown;
}

async function keyed(t: TestContext, more: Pick<TestGatewayOptions, 'config'> = {}) {
  const [free, denied, listed] = [
    testKey('free'),
    testKey('denied', { plan: 'denied' }),
    testKey('listed', { plan: 'listed' }),
  ];
  const { node, gateway } = await keyedGateway(t, [free, denied, listed], { plans, ...more });
  const view = async (key: TestKey, body: Buffer, query = ''): Promise<Answer> => {
    const reply = await gateway.post(`/view${query}`, body, bearer(key));
    return { status: reply.status, code: reply.status === 200 ? undefined : JSON.parse(reply.text).error_code };
  };
  return { node, gateway, free, denied, listed, view };
}

const refused = { status: 403, code: 'api_disabled' };
const served = { status: 200, code: undefined };

function rawRequest(form: 'HTTP/1.1' | 'HTTP/1.0' | 'absolute' | 'chunked' | 'pipelined') {
  return ({ method = 'POST', path = '/view', headers = {}, body }: Spelling, { text }: TestKey, query: string) => {
    const target = `${form === 'absolute' ? 'HTTP://a.example' : ''}/v1${path}${query}`;
    const isChunked = form === 'chunked';
    const length = isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
    const lines = Object.entries({ host: 'a', authorization: `Bearer ${text}`, ...headers }).map((pair) =>
      pair.join(': '),
    );
    const version = form === 'HTTP/1.0' ? form : 'HTTP/1.1';
    const ahead = `GET /v1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${text}\r\n\r\n`;
    const head = `${form === 'pipelined' ? ahead : ''}${method} ${target} ${version}\r\n${lines.join('\r\n')}\r\nConnection: close\r\n${length}\r\n\r\n`;
    if (!isChunked) return Buffer.concat([Buffer.from(head), body]);
    const cut = Math.floor(body.length / 2);
    const chunks = [body.subarray(0, cut), body.subarray(cut)].flatMap((piece) => [
      `${piece.length.toString(16)}\r\n`,
      piece,
      '\r\n',
    ]);
    return Buffer.concat([head, ...chunks, '0\r\n\r\n'].map((part) => Buffer.from(part)));
  };
}

/** The request of a client with connections that it keeps. */
function askedOf({ method = 'POST', path = '/view', headers, body }: Spelling, { text }: TestKey, query: string) {
  return { method, path: `/v1${path}${query}`, headers: { ...headers, authorization: `Bearer ${text}` }, body };
}

/** Two clients over TLS. */
async function tlsClients(t: TestContext, { port }: TestGateway, ca: string): Promise<Record<'h1' | 'h2', Send>> {
  const origin = `https://127.0.0.1:${port}`;
  const client = new Client(origin, { connect: { ca } });
  t.after(() => client.destroy());
  const session = await h2Session(t, origin, ca);
  return {
    async h1(...request) {
      const { statusCode, body } = await client.request(askedOf(...request));
      await body.dump();
      return statusCode;
    },
    h2: async (...request) => (await askH2(session, askedOf(...request))).status,
  };
}

function raw(port: number, form: Parameters<typeof rawRequest>[0]): Send {
  return async (spelling, key, query) => {
    const said = await exchangeRaw(port, rawRequest(form)(spelling, key, query));
    const statuses = [...said.matchAll(/(?:^|\r\n|\}|\])HTTP\/1\.1 (\d{3}) /g)];
    return Number(statuses.at(-1)?.[1]);
  };
}

type Keys = Readonly<Record<'free' | 'denied' | 'listed', TestKey>>;

/**
 * Sends each spelling with all keys, before and after its answer is in the caches, or once. `from`: a version that no
 * earlier call has read.
 */
async function tryAll(
  node: { readonly reads: number },
  { free, denied, listed }: Keys,
  send: Send,
  from = 1,
  times: 'once' | 'twice' = 'twice',
): Promise<void> {
  const reached: string[] = [];
  for (const [index, spelling] of spellings.entries()) {
    const { title, isForNodes } = spelling;
    const query = `?ledger_version=${from + index}`;
    const tryDenied = async (): Promise<void> => {
      const before = node.reads;
      for (const key of [denied, listed]) {
        const status = await send(spelling, key, query);
        if (isForNodes) assert.equal(status, 403, title);
        else assert.ok(status >= 400 && status < 500, `${title}: ${status}`);
      }
      if (node.reads > before) reached.push(title);
    };
    await tryDenied();
    const before = node.reads;
    const status = await send(spelling, free, query);
    // Without it, the spelling would prove nothing.
    assert.equal(node.reads > before, isForNodes, `${title}: ${status}`);
    if (times === 'once') continue;
    await send(spelling, free, query);
    await tryDenied();
  }
  assert.deepEqual(reached, []);
}

for (const fastPath of [true, false]) {
  const state = `fast path ${fastPath ? 'on' : 'off'}`;

  test(`${spellings.length} spellings of a denied view reach no node, ${state}`, async (t) => {
    const { node, gateway, ...keys } = await keyed(t, { config: { listen: { fastPath } } });
    await tryAll(node, keys, raw(gateway.port, 'HTTP/1.1'));
    if (!fastPath) return;
    // The fast path leaves other forms to Node's server; what is in the caches is the same for all of them.
    for (const [at, form] of (['pipelined', 'HTTP/1.0', 'absolute', 'chunked'] as const).entries()) {
      await t.test(form, () => tryAll(node, keys, raw(gateway.port, form), 100 + at * 100, 'once'));
    }
  });

  test(`over TLS and HTTP/2, and for clients of event streams, no spelling does either, ${state}`, async (t) => {
    const ca = authority(t);
    const { node, gateway, ...keys } = await keyed(t, { config: { listen: { fastPath, tls: ca.certify('gateway') } } });
    const { h1, h2 } = await tlsClients(t, gateway, ca.ca);
    if (fastPath) {
      for (const spelling of spellings) {
        const { title, isForNodes } = spelling;
        const events = { ...spelling, headers: { ...spelling.headers, accept: 'text/event-stream' } };
        for (const key of [keys.denied, keys.listed]) {
          const statuses = [await h1(events, key, ''), await h2(events, key, '')];
          if (isForNodes) assert.deepEqual(statuses, [403, 403], title);
          else assert.ok(Math.min(...statuses) >= 400 && Math.max(...statuses) < 500, title);
        }
      }
      assert.equal(node.reads, 0);
    }
    await tryAll(node, keys, h1, 1, fastPath ? 'twice' : 'once');
    await tryAll(node, keys, h2, 100, fastPath ? 'twice' : 'once');
  });
}

test('a reload of plans is in force for answers in memory, whose targets are known', async (t) => {
  const { node, gateway, free, denied, listed, view } = await keyed(t);
  const query = '?ledger_version=5';
  const all = () => Promise.all([free, denied, listed].map((key) => view(key, viewBody(), query)));
  assert.deepEqual(await all(), [served, refused, refused]);
  assert.deepEqual(await all(), [served, refused, refused]);
  assert.equal(node.requestsTo('view'), 1);

  assert.equal(
    await replan(gateway, { ...plans, free: plans.denied, denied: planConfig({ views: { deny: [other] } }) }),
    'applied',
  );
  assert.deepEqual(await all(), [refused, served, refused]);

  assert.equal(
    await replan(gateway, { ...plans, listed: planConfig({ views: { allow: ['0x001::ledgergate_sample::*'] } }) }),
    'applied',
  );
  assert.deepEqual(await all(), [served, refused, served]);
  assert.equal(node.requestsTo('view'), 1);
  assert.ok((await gateway.metric('ledgergate_access_refusals_total{reason="function",plan="denied"}')) >= 3);
});

test('views of other functions are served: small, large, by BCS, and of requests without a key', async (t) => {
  const access = accessConfig({ anonymous: 'listed', plans });
  const { node, gateway } = await nodeAndGateway(t, { access });
  const post = async (body: Buffer, type = 'application/json') =>
    (await gateway.post('/view?ledger_version=5', body, { 'content-type': type })).status;
  const named = { name: `"0x01${other.slice('0x1'.length)}"` };
  const large = viewBody({ ...named, values: `"${'a'.repeat(60_000)}"`, last: ',"ignored":1' });

  assert.equal(await post(viewBody(named)), 200);
  assert.equal(await post(large), 200);
  // The node gets the text whose function was read.
  const { body } = node.log.received.at(-1) ?? {};
  assert.match(String(body), /^\{"function":"0x1::ledgergate_sample::version",/);
  assert.doesNotMatch(String(body), /ignored/);
  const bcs = Buffer.concat([
    Buffer.from(`${'00'.repeat(31)}01`, 'hex'),
    Buffer.from('\u0011ledgergate_sample\u0007version\u0000\u0000'),
  ]);
  assert.equal(await post(bcs, 'application/x.aptos.view_function+bcs'), 200);
  assert.equal(node.requestsTo('view'), 3);
  assert.equal(await post(viewBody()), 403);
  // Other reads have no function.
  assert.equal((await gateway.get('/accounts/0x1/module/coin')).status, 200);
  assert.equal((await gateway.get('/accounts/0x1?x=1')).status, 200);
  assert.equal(node.requestsTo('view'), 3);
});

testStreams('no stream of a denied view opens, and a reload ends those that it denies', async (t, track) => {
  const { node, gateway, free, denied, listed } = await keyed(t);
  const open = (key: TestKey, body = viewBody()) =>
    track(EventReader.open(`${gateway.url}/view`, bearer(key), { body: body.toString() }));
  const large = viewBody({ values: `"${'a'.repeat(10_000)}"` });
  for (const key of [denied, listed]) {
    for (const body of [viewBody(), large, viewBody({ last: `,"function":"${other}"` })]) {
      const stream = await open(key, body);
      await stream.ended;
      assert.deepEqual([stream.status, JSON.parse(stream.text).error_code], [403, 'api_disabled']);
    }
  }
  assert.equal(node.requestsTo('view'), 0);

  const echo = await open(free);
  const unread = await open(free, viewBody({ values: '"\\ud800"' }));
  const version = await open(free, viewBody({ name: `"${other}"` }));
  const ofOther = await open(denied, viewBody({ name: `"${other}"` }));
  assert.deepEqual(statusesOf([echo, unread, version, ofOther]), [200, 200, 200, 200]);
  assert.equal(await replan(gateway, { ...plans, free: plans.denied }), 'applied');
  // The function of the second is not certain.
  await Promise.all([echo.ended, unread.ended]);
  assert.equal(await gateway.metric('ledgergate_streams_closed_total{kind="changes",reason="revoked"}'), 2);
  node.clock.head = 950n;
  await version.has(2);
  assert.deepEqual([version.hasEnded, ofOther.hasEnded], [false, false]);
});

test('explain shows the refusal of a plan, and asks no node', async (t) => {
  const { node, gateway } = await keyed(t);
  const explain = async (query: Readonly<Record<string, string>>) => {
    const { text } = await fetchReply(
      `${gateway.operationsUrl}/admin/explain?${new URLSearchParams(query).toString()}`,
      {
        method: 'GET',
      },
    );
    return (JSON.parse(text) as { readonly answer?: { readonly status: number; readonly body: unknown } }).answer;
  };
  const body = viewBody().toString();
  const asked = node.requests;
  const answer = await explain({ target: '/v1/view', plan: 'denied', body });
  assert.equal(answer?.status, 403);
  assert.deepEqual(answer.body, {
    message: 'this plan allows views of certain functions only, in a form that leaves no doubt of the function',
    error_code: 'api_disabled',
    vm_error_code: null,
  });
  const twice = viewBody({ last: `,"function":"${other}"` }).toString();
  for (const [plan, target, text, status] of [
    ['listed', '/v1/view?ledger_version=5', body, 403],
    ['denied', '/v1/View', body, 403],
    ['denied', '/v1/view', twice, 403],
    ['denied', '/v1/view', viewBody({ name: `"${other}"` }).toString(), undefined],
    ['denied', '/v1/view', viewBody({ name: `"${other}"`, values: `"${'a'.repeat(9_000)}"` }).toString(), undefined],
    ['free', '/v1/view', body, undefined],
    ['free', '/v1/View', body, undefined],
  ] as const) {
    assert.equal(
      (await explain({ target, plan, body: text }))?.status,
      status,
      `${plan} ${target} ${text.slice(0, 100)}`,
    );
  }
  assert.equal(node.requests, asked);
});
