import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Registry } from 'prom-client';
import { formatLogLine, GatewayLog, LogOutput } from '../../src/gateway/log.ts';
import { testConfig } from '../support/gateway.ts';

test('written lines at warn and above are counted, children included, whatever the level was before', async () => {
  const written: string[] = [];
  const to = { write: (line: string) => void written.push((JSON.parse(line) as { msg: string }).msg) };
  const log = new GatewayLog(testConfig({ config: { log: { level: 'info' } } }).log, to);
  const { logger } = log;
  const registry = new Registry();
  log.register(registry);
  const counts = async () => {
    const lines = await registry.getSingleMetric('ledgergate_log_lines_total')?.get();
    return lines?.values.map(({ value }) => value);
  };

  logger.info('one');
  logger.warn({ a: 1 }, 'two');
  logger.child({ worker: 1 }).error('three');
  assert.deepEqual(await counts(), [1, 1, 0]);

  logger.level = 'error';
  logger.warn('four');
  logger.fatal('five %d', 5);
  assert.deepEqual(await counts(), [1, 1, 1]);

  logger.level = 'silent';
  logger.fatal('six');
  assert.deepEqual(await counts(), [1, 1, 1]);
  assert.deepEqual(written, ['one', 'two', 'three', 'five 5']);
});

/** A stream that accepts one piece, and the next ones after `open`. */
class Stuck extends Writable {
  readonly pieces: string[] = [];
  #go: (() => void) | undefined;
  isOpen = false;

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.pieces.push(chunk.toString());
    if (this.isOpen) done();
    else this.#go = done;
  }

  open(): void {
    this.isOpen = true;
    this.#go?.();
  }

  get text(): string {
    return this.pieces.join('');
  }
}

const line = (index: number): string => `${String(index).padStart(6)} ${'x'.repeat(192)}\n`;

test('lines keep their order, in pieces that a pipe writes atomically', async () => {
  const stream = new Stuck();
  stream.open();
  const output = new LogOutput(stream);

  for (let index = 0; index < 100; index += 1) output.write(line(index));
  await output.flush(1_000);

  assert.equal(stream.text, Array.from({ length: 100 }, (_, index) => line(index)).join(''));
  assert.equal(stream.pieces.length, 5);
  assert.ok(stream.pieces.every((piece) => piece.length <= 4096 && piece.endsWith('\n')));
});

test('a longer line is a piece of its own', async () => {
  const stream = new Stuck();
  stream.open();
  const output = new LogOutput(stream);
  const long = `${'y'.repeat(10_000)}\n`;

  for (const text of [line(1), long, line(2)]) output.write(text);
  await output.flush(1_000);

  assert.deepEqual(stream.pieces, [line(1), long, line(2)]);
});

test('lines of the audit log are written at every level, and other lines do not displace them', async () => {
  const stream = new Stuck();
  const output = new LogOutput(stream);
  const log = new GatewayLog(testConfig({ config: { log: { level: 'silent' } } }).log, output, { worker: 7 });
  while (output.dropped === 0) output.write(line(1));

  log.audit({ operator: 'ana', action: 'purge', status: 200 });
  log.logger.fatal('not written');
  output.write(line(2));
  assert.equal(output.dropped, 2);
  stream.open();
  await output.flush(1_000);

  const lines = stream.text.trim().split('\n');
  const audited = lines.filter((text) => text.includes('audit'));
  assert.equal(audited.length, 1);
  assert.partialDeepStrictEqual(JSON.parse(audited[0] ?? ''), {
    level: 35,
    worker: 7,
    operator: 'ana',
    action: 'purge',
    status: 200,
    msg: 'audit',
  });
  assert.match(formatLogLine(audited[0] ?? ''), / AUDIT audit +worker=7 +operator=ana +action=purge +status=200\n$/);
  assert.ok(!stream.text.includes('not written'));
});

test('the buffer is bounded, dropped lines are counted, and one report follows when there is room', async () => {
  const stream = new Stuck();
  const output = new LogOutput(stream);
  const resumed: number[] = [];
  output.onResumed = (lost) => void resumed.push(lost);

  for (let index = 0; index < 20_000; index += 1) {
    output.write(line(index));
    if (index % 1_000 === 0) await turn();
  }
  const { dropped } = output;
  assert.ok(dropped > 14_000 && dropped < 15_000, `${dropped} of 20,000`);
  assert.equal(stream.writableLength, stream.pieces[0]?.length, 'the stream itself holds one piece');
  assert.deepEqual(resumed, []);

  stream.open();
  await output.flush(1_000);
  output.write(line(20_000));
  output.write(line(20_001));
  await output.flush(1_000);

  assert.deepEqual(resumed, [dropped]);
  assert.equal(stream.text.split('\n').length - 1, 20_002 - dropped);
});

test('a flush waits for the stream, within its bound', async () => {
  const output = new LogOutput(new Stuck());
  output.write(line(1));
  // Without the bound it does not resolve.
  await output.flush(50);
});

test('a closed reader loses lines and nothing else', async () => {
  const stream = new Writable({
    write: (_chunk, _encoding, done) => done(Object.assign(new Error('EPIPE'), { code: 'EPIPE' })),
  });
  const output = new LogOutput(stream);
  output.write(line(1));
  await output.flush(1_000);
  await turn();
  output.write(line(2));
  await output.flush(1_000);
  assert.equal(output.dropped, 1);
});

const head = '"pid":7,"hostname":"h"';
const time = 1_795_394_353_404;
/** The line without its time of day, which depends on the zone. */
const text = (json: string): string => {
  const line = formatLogLine(json);
  assert.match(line, /^\d\d:\d\d:\d\d\.\d{3} [^\n]*\n$/);
  return line.slice('12:00:00.000 '.length, -1);
};

test('a line is level, event and fields, without the process', () => {
  const line = `{"level":40,"time":${time},${head},"upstream":"a","tries":3,"window":{"oldest":5},"cause":"connect ECONNREFUSED 10.0.0.1:80","msg":"upstream is down"}\n`;

  assert.match(formatLogLine(line), /:\d\d:13\.404 WARN /);
  assert.equal(
    text(line),
    'WARN  upstream is down  upstream=a  tries=3  window={"oldest":5}  cause="connect ECONNREFUSED 10.0.0.1:80"',
  );
});

test('versions above 2^53 stay exact', () => {
  const line = `{"level":30,"time":${time},${head},"head":18446744073709551615,"msg":"m"}\n`;

  assert.equal(text(line), 'INFO  m  head=18446744073709551615');
});

test('a text that a node chose cannot steer the terminal', () => {
  const hostile = JSON.stringify('\u001b[2J\u009b2J\u202e\u007f\n');
  const line = `{"level":50,"time":${time},${head},"cause":${hostile},"msg":${hostile}}\n`;

  const escaped = String.raw`\u001b[2J\u009b2J\u202e\u007f`;
  assert.equal(text(line), String.raw`ERROR ${escaped}\u000a  cause="${escaped}\n"`);
});

test('the level alone is painted', () => {
  const line = `{"level":40,"time":${time},${head},"msg":"m"}\n`;

  assert.match(
    formatLogLine(line, (word, level) => `<${word}:${level}>`),
    / <WARN :40> m\n$/,
  );
});
