/** Traces by OTLP, read from a collector. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { moduleText, moduleTexts, readGroup } from '../../encode/vectors.ts';
import { collector, type CollectedSpan, type Collector } from '../../support/collector.ts';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import {
  fetchReply,
  nodeAndGateway,
  probeAt,
  testGateway,
  type TestGateway,
  type TestGatewayOptions,
  type LogLine,
  type Reply,
} from '../../support/gateway.ts';
import { written } from '../../support/redis-replica.ts';
import { redisTest } from '../../support/redis-server.ts';
import { vectorNode } from '../../support/vector-node.ts';

interface Scene<Gateway = { readonly url: string }> {
  readonly traces: Collector;
  readonly gateway: Gateway;
}

/** `share` of the traces is recorded. */
async function scene(t: TestContext, options: TestGatewayOptions, share = 1): Promise<Scene<TestGateway>> {
  const traces = await collector(t);
  return { traces, gateway: await testGateway(t, { ...options, tracing: { endpoint: traces.url, share } }) };
}

/** A request within a trace of its own, with the trace's id. */
async function ask(
  { gateway }: Scene,
  path: string,
  { method = 'GET', body, headers = {} }: { method?: 'GET' | 'POST'; body?: string; headers?: object } = {},
): Promise<{ readonly reply: Reply; readonly traceId: string; readonly parentId: string }> {
  const [traceId, parentId] = [randomBytes(16).toString('hex'), randomBytes(8).toString('hex')];
  const traceparent = `00-${traceId}-${parentId}-01`;
  const reply = await fetchReply(gateway.url + path, {
    method,
    body: body ?? null,
    headers: { traceparent, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
  });
  return { reply, traceId, parentId };
}

interface Story {
  readonly spans: readonly CollectedSpan[];
  readonly server: CollectedSpan;
  readonly tree: string;
  /** Upstream, reason and verdict of each attempt, in order of their ends. */
  readonly attempts: readonly (readonly unknown[])[];
}

/** The collected spans of a trace, once its server span and this number of attempts have arrived. */
async function story({ traces }: Scene, traceId: string, attempts: number): Promise<Story> {
  const spans = await traces.trace(traceId, (found) => {
    // A span may arrive ahead of its parent, in an export of its own.
    const ids = new Set(found.map(({ spanId }) => spanId));
    const isWhole = found.every(({ kind, parentSpanId: of = '' }) => kind === 'server' || of === '' || ids.has(of));
    return isWhole && found.some(({ kind }) => kind === 'server') && named(found, 'attempt').length >= attempts;
  });
  const server = spans.find(({ kind }) => kind === 'server');
  assert.ok(server !== undefined);
  const keys = ['ledgergate.upstream', 'ledgergate.attempt.reason', 'ledgergate.attempt.verdict'];
  return {
    spans,
    server,
    tree: traces.tree(spans, server),
    attempts: named(spans, 'attempt').map(({ attributes }) => keys.map((key) => attributes[key])),
  };
}

function named(spans: readonly CollectedSpan[], name: string): readonly CollectedSpan[] {
  return spans.filter((span) => span.name === name);
}

test('a miss has spans for its flight and attempt, the hit after it one span; client and node are in the trace', async (t) => {
  const node = await fakeNode(t);
  const lines: LogLine[] = [];
  const the = await scene(t, { full: [node], onLog: (line) => lines.push(line) });

  const miss = await ask(the, probeAt(7), { headers: { tracestate: 'vendor=1', baggage: 'who=me' } });
  const hit = await ask(the, probeAt(7));

  const recorded = await story(the, miss.traceId, 1);
  assert.equal(recorded.tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt]]');
  assert.deepEqual(recorded.attempts, [['full-0', 'first choice', 'final']]);
  assert.equal(recorded.server.parentSpanId, miss.parentId);
  assert.equal(recorded.server.service, 'ledgergate');
  assert.deepEqual(recorded.server.attributes, {
    'http.request.method': 'GET',
    'http.route': '/v1/accounts/:address/resource/:type',
    'http.response.status_code': 200,
    'url.scheme': 'http',
    'network.protocol.version': '1.1',
    'ledgergate.outcome': 'miss',
    'ledgergate.upstream': 'full-0',
    'ledgergate.served_version': '7',
  });
  const [attempt] = named(recorded.spans, 'attempt');
  const received = node.log.received.filter(({ route }) => route === 'resource').map(({ headers }) => headers);
  assert.equal(received.length, 1);
  assert.equal(received[0]?.['traceparent'], `00-${miss.traceId}-${attempt?.spanId}-01`);
  assert.equal(received[0]?.['tracestate'], 'vendor=1');
  assert.equal(received[0]?.['baggage'], undefined, 'what strangers put there is for nobody');
  assert.equal(attempt?.kind, 'client');

  const line = lines.find((candidate) => candidate['trace_id'] === miss.traceId && candidate['msg'] === 'answered');
  assert.equal(line?.['span_id'], recorded.server.spanId);

  const ofHit = await story(the, hit.traceId, 0);
  assert.equal(ofHit.spans.length, 1, 'finding it took less than telling of it would');
  assert.equal(ofHit.server.attributes['ledgergate.outcome'], 'memory');
  assert.equal(ofHit.server.attributes['ledgergate.served_version'], '7');
});

test('a failed attempt and its retry have spans of their own', async (t) => {
  // The shallower node is asked first.
  const [failing, sound] = [await fakeNode(t, { oldest: 500n }), await fakeNode(t)];
  const the = await scene(t, { full: [failing, sound] });
  failing.fault = { kind: 'unavailable' };

  const { reply, traceId } = await ask(the, probeAt(700));

  assert.equal(reply.status, 200);
  const { tree, attempts, spans, server } = await story(the, traceId, 2);
  assert.equal(tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt, attempt]]');
  assert.deepEqual(attempts, [
    ['full-0', 'first choice', 'failed'],
    ['full-1', 'retry', 'final'],
  ]);
  const [first, second] = named(spans, 'attempt');
  assert.deepEqual([first?.isError, first?.attributes['error.type']], [true, 'status']);
  assert.deepEqual([second?.isError, second?.attributes['http.request.resend_count']], [false, 1]);
  assert.equal(server.isError, false, 'the client has its answer');
});

test('a request that no node answers is an error of its trace; a fault of the client is none', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, { full: [node] });
  node.fault = { kind: 'reset' };

  const failed = await ask(the, probeAt(7));
  const refused = await ask(the, probeAt(7).replace('version=7', 'version=x'));

  assert.deepEqual([failed.reply.status, refused.reply.status], [503, 400]);
  const ofFailed = await story(the, failed.traceId, 1);
  assert.deepEqual([ofFailed.server.isError, ofFailed.server.attributes['error.type']], [true, '503']);
  assert.deepEqual(
    [named(ofFailed.spans, 'flight')[0]?.isError, ofFailed.server.attributes['ledgergate.outcome']],
    [true, 'failed'],
  );
  const ofRefused = await story(the, refused.traceId, 0);
  assert.deepEqual([ofRefused.server.isError, ofRefused.server.attributes['ledgergate.outcome']], [false, 'refused']);
});

test('a hedge has a span beside the attempt that it overtakes, which is cancelled and no error', async (t) => {
  const first = await fakeNode(t, { oldest: 50_000n, head: 90_000n });
  const second = await fakeNode(t, { head: 90_000n });
  const the = await scene(t, {
    full: [first, second],
    config: { upstream: { hedge: { quantile: 0.95, share: 0.5 } } },
  });
  for (let version = 60_000; version < 60_030; version += 1) await ask(the, probeAt(version));
  first.fault = { kind: 'hang' };

  const { reply, traceId } = await ask(the, probeAt(70_000));

  assert.equal(reply.headers['cache-status'], 'ledgergate; fwd=miss; detail=full-1');
  const { tree, attempts, spans } = await story(the, traceId, 2);
  assert.equal(tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt, attempt]]');
  assert.deepEqual(
    [...attempts].sort((one, other) => String(one).localeCompare(String(other))),
    [
      ['full-0', 'first choice', 'cancelled'],
      ['full-1', 'hedge', 'final'],
    ],
  );
  assert.ok(spans.every(({ isError }) => !isError));
});

test("a coalesced follower is linked to its leader's flight", async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, { full: [node] });
  const release = node.hold();

  const asked = node.log.next();
  const leading = ask(the, probeAt(7));
  await asked;
  const following = [ask(the, probeAt(7)), ask(the, probeAt(7))];
  await until(async () => (await the.gateway.metric('ledgergate_http_in_flight_requests')) === 3);
  release();
  const [leader, ...followers] = await Promise.all([leading, ...following]);

  const [flight] = named((await story(the, leader?.traceId ?? '', 1)).spans, 'flight');
  assert.equal(flight?.attributes['ledgergate.flight.role'], 'leader');
  for (const { traceId } of followers) {
    const { tree, spans, server } = await story(the, traceId, 0);
    assert.equal(tree, 'GET /v1/accounts/:address/resource/:type [flight]');
    assert.equal(server.attributes['ledgergate.outcome'], 'collapsed');
    const [wait] = named(spans, 'flight');
    assert.deepEqual([wait?.attributes['ledgergate.flight.role'], wait?.links], ['follower', [flight?.spanId]]);
  }
});

test('a pruned answer that another node repairs has a span, and is no error', async (t) => {
  const full = await fakeNode(t);
  const archive = await fakeNode(t, { archival: true });
  const the = await scene(t, { full: [full], archival: [archive] });
  full.fault = { kind: 'pruned' };

  const { reply, traceId } = await ask(the, probeAt(7));

  assert.equal(reply.status, 200);
  const { attempts, spans } = await story(the, traceId, 2);
  assert.deepEqual(attempts, [
    ['full-0', 'first choice', 'pruned'],
    ['archive-0', 'pruned elsewhere', 'final'],
  ]);
  assert.deepEqual(
    named(spans, 'attempt').map((span) => [span.attributes['http.response.status_code'], span.isError]),
    [
      [410, false],
      [200, false],
    ],
  );
});

test('a read of latest has a span for the wait for its version', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, { full: [node] });

  const { reply, traceId } = await ask(the, probeAt(7).replace(/\?.*/, ''));

  assert.equal(reply.headers['ledgergate-served-version'], '1000');
  const { tree, server } = await story(the, traceId, 1);
  assert.equal(tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt], snapshot]');
  assert.equal(server.attributes['ledgergate.served_version'], '1000');
});

redisTest('a hit in Redis has spans of its commands, without keys', async (t, server) => {
  const node = await fakeNode(t);
  const target = { kind: 'single', url: server.url } as const;
  const redis = { target, keyPrefix: 'lg', timeoutMs: 500, ttlMs: 60_000 };
  const options = { full: [node], config: { cache: { redis } } };
  const [one, other] = [await scene(t, options), await scene(t, options)];

  const missed = await ask(one, probeAt(7));
  await written(one.gateway, 1);
  const found = await ask(other, probeAt(7));

  assert.equal(found.reply.headers['cache-status'], 'ledgergate; hit; detail=redis');
  const ofMiss = await story(one, missed.traceId, 1);
  assert.equal(ofMiss.tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt, lease [SET], lookup [HGET]]]');
  const ofHit = await story(other, found.traceId, 0);
  assert.equal(ofHit.tree, 'GET /v1/accounts/:address/resource/:type [flight [lookup [GET, HGET]]]');
  assert.equal(ofHit.server.attributes['ledgergate.outcome'], 'redis');
  assert.equal(named(ofHit.spans, 'lookup')[0]?.attributes['ledgergate.redis.outcome'], 'hit');
  assert.deepEqual(named(ofHit.spans, 'HGET')[0]?.attributes, {
    'db.system.name': 'redis',
    'db.operation.name': 'HGET',
  });
});

test('a signing message that is encoded here has no attempt; one that a node encodes has the reason', async (t) => {
  const vector = readGroup('13-framework.json').find(({ name }) => name === 'coin transfer');
  assert.ok(vector !== undefined);
  const node = await vectorNode(t, vector.chain_id);
  for (const text of [...moduleTexts, moduleText(vector.abi)]) node.publish(text);
  node.encode = () => ({ status: 200, body: '"0x00"' });
  const the = await scene(t, { full: [node] });
  const path = '/transactions/encode_submission';
  const body = JSON.stringify(vector.request);

  const local = await ask(the, path, { method: 'POST', body });
  const script = JSON.stringify({ ...(vector.request as object), payload: { type: 'script_payload' } });
  const forwarded = await ask(the, path, { method: 'POST', body: script });

  assert.equal(local.reply.text, JSON.stringify(vector.expected_hex));
  const ofLocal = await story(the, local.traceId, 0);
  assert.equal(ofLocal.tree, 'POST /v1/transactions/encode_submission [encode]');
  assert.deepEqual(named(ofLocal.spans, 'encode')[0]?.attributes, { 'ledgergate.encode.result': 'local' });
  const ofForwarded = await story(the, forwarded.traceId, 1);
  assert.equal(ofForwarded.tree, 'POST /v1/transactions/encode_submission [attempt, encode]');
  assert.deepEqual(named(ofForwarded.spans, 'encode')[0]?.attributes, {
    'ledgergate.encode.result': 'forwarded',
    'ledgergate.encode.reason': 'script payload',
  });
  assert.match(String(node.encodes[0]?.headers['traceparent']), new RegExp(`^00-${forwarded.traceId}-`));
});

test('with sampling off nothing is sent to the collector, and the trace goes on at the node', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, { full: [node] }, 0);

  const { reply, traceId } = await ask(the, probeAt(7));

  assert.equal(reply.status, 200);
  const received = node.log.received.find(({ route }) => route === 'resource');
  assert.match(String(received?.headers['traceparent']), new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`));
  // The gateway flushes the exporter at its end.
  await the.gateway.close();
  assert.equal(the.traces.requests, 0);
});

for (const workers of [1, 2]) {
  test(`spans of the last moment are exported before the end; ${workers} processes`, async (t) => {
    const node = await fakeNode(t);
    const traces = await collector(t);
    const tracing = { endpoint: traces.url, share: 1 };
    const gateway =
      workers === 1
        ? await testGateway(t, { full: [node], tracing })
        : await gatewayProcess(t, { full: [node], config: { workers, tracing, upstream: { hedge: false } } });
    const the = { traces, gateway };
    const first = await ask(the, probeAt(7));
    const release = node.hold();

    const asked = node.log.next();
    const last = ask(the, probeAt(8));
    await asked;
    const stopped = 'stop' in gateway ? gateway.stop() : gateway.close();
    // It accepts no more: with its last request the process ends, before the next regular export.
    await until(() =>
      fetch(gateway.url).then(
        () => false,
        () => true,
      ),
    );
    release();

    assert.ok(!(await stopped));
    for (const { traceId } of [first, await last]) {
      assert.equal((await story(the, traceId, 1)).tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt]]');
    }
  });
}

const registered = new URL('../../support/registered-sdk.ts', import.meta.url).href;

test('an SDK that --import registers records in place of that of the config, and a warning reports it', async (t) => {
  const node = await fakeNode(t);
  const [traces, unused] = [await collector(t), await collector(t)];
  const gateway = await gatewayProcess(t, {
    full: [node],
    config: { tracing: { endpoint: unused.url, share: 1 } },
    env: {
      NODE_OPTIONS: `--import ${registered}`,
      OTEL_EXPORTER_OTLP_ENDPOINT: traces.url,
      OTEL_SERVICE_NAME: 'registered',
    },
  });
  const the = { traces, gateway };

  const { traceId } = await ask(the, probeAt(7));

  const { tree, server } = await story(the, traceId, 1);
  assert.equal(tree, 'GET /v1/accounts/:address/resource/:type [flight [attempt]]');
  assert.equal(server.service, 'registered');
  await gateway.line(/^warning: tracing is ignored: the OpenTelemetry SDK that --import has registered/);
  assert.equal(await gateway.stop(), 0);
  assert.equal(unused.requests, 0);
});

test('a collector that refuses spans costs a count and one line; its credentials are in no line', async (t) => {
  const traces = await collector(t);
  traces.status = 401;
  const lines: LogLine[] = [];
  const node = await fakeNode(t);
  const headers = { authorization: 'Bearer hush-7f3a' };
  const gateway = await testGateway(t, {
    full: [node],
    tracing: { endpoint: traces.url, share: 1, headers },
    onLog: (line) => lines.push(line),
  });
  const spans = (outcome: string) => gateway.metric(`ledgergate_trace_spans_total{outcome="${outcome}"}`);
  const about = (): readonly unknown[] => lines.filter(({ msg }) => String(msg).includes('collector'));

  for (const failed of [3, 6]) {
    const { status } = await gateway.get(probeAt(failed));
    assert.equal(status, 200);
    await until(async () => (await spans('failed')) === failed);
  }
  assert.equal(traces.headers.authorization, headers.authorization);
  assert.partialDeepStrictEqual(about(), [
    { level: 40, msg: 'the collector takes no spans: they are dropped until it does', cause: 'Unauthorized' },
  ]);
  traces.status = 200;
  await gateway.get(probeAt(9));
  await until(async () => (await spans('exported')) === 3);

  assert.partialDeepStrictEqual(about().slice(1), [{ level: 30, msg: 'the collector takes spans again' }]);
  assert.equal(about().length, 2);
  for (const line of lines) assert.doesNotMatch(JSON.stringify(line), /hush/);
});

test('a collector that does not answer delays no request, and the end by a second at most', async (t) => {
  const node = await fakeNode(t);
  const the = await scene(t, { full: [node] });
  the.traces.status = 'hang';

  const asked = await Promise.all([7, 8, 9].map((version) => ask(the, probeAt(version))));
  await until(() => the.traces.requests > 0);

  assert.deepEqual(
    asked.map(({ reply }) => reply.status),
    [200, 200, 200],
  );
  const startedMs = performance.now();
  await the.gateway.close();
  assert.ok(performance.now() - startedMs < 1_000 + 4_000, 'the flush, and some time for a busy machine');
});

// The client's trace without a recorder: the node gets it, and no other part.

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const tracestate = 'vendor=1';
const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7';

test("reads, short shares, passed requests and submissions carry on their client's trace; a malformed one is dropped", async (t) => {
  const { node, gateway } = await nodeAndGateway(t, {}, { head: 1_000n });
  const headers = { traceparent, tracestate };
  node.log.clear();

  await gateway.get(probe, headers);
  await gateway.get('/estimate_gas_price', headers);
  await gateway.get('/estimate_gas_price?x=1', headers);
  await gateway.post('/transactions', '{}', headers);
  await gateway.get(`${probe}8`, { traceparent: `${traceparent}-x`, tracestate });
  await gateway.get('/estimate_gas_price?x=1', { traceparent: 'none', tracestate });

  const asked = node.log.received.filter(({ route }) => route !== 'ledgerInfo');
  assert.deepEqual(
    asked.map((request) => `${String(request.headers['traceparent'])} ${String(request.headers['tracestate'])}`),
    [...Array<string>(4).fill(`${traceparent} ${tracestate}`), ...Array<string>(2).fill('undefined undefined')],
  );
});
