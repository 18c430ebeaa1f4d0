import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { LogOutput } from '../../../src/gateway/log/log-output.ts';

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
  const startedMs = performance.now();
  await output.flush(50);
  assert.ok(performance.now() - startedMs < 1_000);
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
