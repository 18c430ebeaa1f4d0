import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ROOT_CONTEXT, trace, TraceFlags } from '@opentelemetry/api';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { familiesOf } from '../../../src/metrics/family.ts';
import { createTracing } from '../../../src/metrics/trace/otlp.ts';
import { Tracer } from '../../../src/metrics/trace/span.ts';
import { collector } from '../../support/collector.ts';
import { freePort } from '../../support/free-port.ts';

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

const parents: readonly (readonly [why: string, text: string | undefined, isTaken: boolean])[] = [
  ['of version 00', parent, true],
  ['not sampled', parent.replace(/01$/, '00'), true],
  ['of a later version', parent.replace(/^00/, '01'), true],
  ['absent', undefined, false],
  ['of no version', parent.replace(/^00/, 'ff'), false],
  ['of no trace', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, false],
  ['without a parent', `00-0af7651916cd43dd8448eb211c80319c-${'0'.repeat(16)}-01`, false],
  ['in capitals', parent.toUpperCase(), false],
  ['with more behind it', `${parent}-00`, false],
  ['twice', `${parent}, ${parent}`, false],
  ['with a space', ` ${parent}`, false],
  ['with a line behind it', `${parent}\n`, false],
];

for (const [why, traceparent, isTaken] of parents) {
  test(`a traceparent ${why} is ${isTaken ? 'handed on as it came' : 'left out'}`, () => {
    assert.deepEqual(Tracer.passedOn({ traceparent })?.headers(), isTaken ? { traceparent } : undefined);
  });
}

const states: readonly (readonly [why: string, text: string, isTaken: boolean])[] = [
  ['of two vendors', 'rojo=00f067aa0ba902b7,congo@t61rc=WkwpQ', true],
  ['with spaces and an empty member', 'a=1 , ,b=2', true],
  ['as long as may be', `a=${'x'.repeat(254)},b=${'y'.repeat(253)}`, true],
  ['longer', `a=${'x'.repeat(255)},b=${'y'.repeat(253)}`, false],
  ['of 33 members', Array.from({ length: 33 }, (_, index) => `a${index}=1`).join(','), false],
  ['without a value', 'a', false],
  ['with two equals signs', 'a=b=c', false],
  ['with a key in capitals', 'A=1', false],
  ['that is not ASCII', 'a=é', false],
  ['that is empty', '', false],
];

for (const [why, tracestate, isTaken] of states) {
  test(`a tracestate ${why} is ${isTaken ? 'handed on' : 'left out'}, and the trace goes on`, () => {
    const expected = isTaken ? { traceparent: parent, tracestate } : { traceparent: parent };
    assert.deepEqual(Tracer.passedOn({ traceparent: parent, tracestate })?.headers(), expected);
  });
}

// Spans that wait for a collector are bounded, and each has one outcome.

function recorder({ url: endpoint }: { readonly url: string }, share = 1) {
  const [registry, causes] = [new Registry(), [] as unknown[]];
  const log = pino({}, { write: (line) => causes.push((JSON.parse(line) as { readonly cause?: unknown }).cause) });
  const resource = { 'service.name': 'under test' };
  const sdk = createTracing({ endpoint, headers: () => ({ 'x-api-key': 'hush' }), share, resource }, { log, registry });
  const record = (spans: number): void => {
    for (let index = 0; index < spans; index += 1) sdk.tracer.startSpan('work').end();
  };
  const counts = async () =>
    Object.fromEntries(
      (await familiesOf(registry))[0]?.values.map(({ labels, value }) => [labels['outcome'], value]) ?? [],
    );
  return { sdk, record, counts, causes };
}

test('spans are exported in batches, with the headers of the config', async (t) => {
  const traces = await collector(t);
  const { sdk, record, counts } = recorder(traces);

  record(600);
  await sdk.flush();

  assert.deepEqual(await counts(), { exported: 600, failed: 0, dropped: 0 });
  assert.deepEqual([traces.spans.length, traces.requests], [600, 2]);
  assert.equal(traces.spans[0]?.service, 'under test');
  assert.equal(traces.headers['x-api-key'], 'hush');
});

test('for a collector that does not answer 2,048 spans wait, and a flush ends within its bound', async (t) => {
  const traces = await collector(t);
  traces.status = 'hang';
  const { sdk, record, counts } = recorder(traces);

  record(5_000);
  const startedMs = performance.now();
  await new Tracer(sdk).flush();

  assert.deepEqual(await counts(), { exported: 0, failed: 0, dropped: 5_000 - 2_048 });
  assert.ok(performance.now() - startedMs < 5_000);
});

test('spans that a collector refuses are counted as failed, and make room for others', async (t) => {
  const traces = await collector(t);
  traces.status = 401;
  const { sdk, record, counts, causes } = recorder(traces);

  record(3_000);
  await sdk.flush();
  traces.status = 200;
  record(2_048);
  await sdk.flush();

  assert.deepEqual(await counts(), { exported: 2_048, failed: 2_048, dropped: 952 });
  assert.equal(causes[0], 'Unauthorized');
});

test('a collector that is not there fails the export after its retries', async () => {
  const { sdk, record, counts, causes } = recorder({ url: `http://127.0.0.1:${await freePort()}` });

  record(10);
  await sdk.flush();

  assert.deepEqual(await counts(), { exported: 0, failed: 10, dropped: 0 });
  assert.match(String(causes[0]), /ECONNREFUSED/);
});

test('a client decides that its trace is not recorded, and not that it is', async (t) => {
  const traces = await collector(t);
  const isRecorded = (share: number, traceFlags: TraceFlags): boolean => {
    const parent = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331', isRemote: true };
    const context = trace.setSpanContext(ROOT_CONTEXT, { ...parent, traceFlags });
    return recorder(traces, share).sdk.tracer.startSpan('work', {}, context).isRecording();
  };

  assert.deepEqual([isRecorded(1, TraceFlags.SAMPLED), isRecorded(1, TraceFlags.NONE)], [true, false]);
  assert.deepEqual([isRecorded(0, TraceFlags.SAMPLED), isRecorded(0, TraceFlags.NONE)], [false, false]);
});
