/** Writes to a store in this process: as many as asked for, or as many as the time allows. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { CachedResponse } from '../../src/cache/record.ts';
import type { CacheKey } from '../../src/cache/key.ts';
import { answerOf, keyAt } from '../../test/support/answers.ts';
import { until } from '../../test/support/eventually.ts';
import { openStore } from '../../test/support/stores.ts';
import type { Ending } from '../../test/support/temporary-folder.ts';

/** Writes that are on their way at most: fewer than the store drops. */
const mostOnTheirWay = 2_048;
const sampleMs = 20;

/** The read of this number. */
export function keyOf(number: number): CacheKey {
  return keyAt(BigInt(number % 4_096), `0x${Math.floor(number / 4_096).toString(16)}/0x1::coin::CoinStore`);
}

/** An answer of about `bytes` that differs from those of other numbers, and compresses by half. */
export function bodyOf(number: number, bytes: number): CachedResponse {
  let text = `{"number":"${number}","data":"`;
  for (let at = 1; text.length < bytes; at += 1) text += (Math.imul(number + at, 0x9e3779b1) >>> 0).toString(36);
  return answerOf(text.slice(0, bytes));
}

/** Bytes that the folder takes on the disk. */
export function bytesOnDisk(folder: string): number {
  let bytes = 0;
  for (const name of readdirSync(folder)) {
    bytes += (statSync(join(folder, name), { throwIfNoEntry: false })?.blocks ?? 0) * 512;
  }
  return bytes;
}

export interface FillResult {
  readonly writes: number;
  readonly dropped: number;
  readonly seconds: number;
  readonly mostBytes: number;
  /** Delay of the event loop while the same answers are made and not stored, on the same machine. */
  readonly idleP999Ms: number;
  readonly loopP999Ms: number;
  readonly loopMaxMs: number;
}

/** Writes answers of `bytes` one after another, for at most `seconds`. */
export async function fill(
  t: Ending,
  folder: string,
  { maxBytes, writes, bytes, seconds }: { maxBytes: number; writes: number; bytes: number; seconds: number },
): Promise<FillResult> {
  let [dropped, onTheirWay, written, mostBytes] = [0, 0, 0, 0];
  const onWritten = (outcome: string, answers: number): void => {
    if (outcome !== 'written') dropped += answers;
  };
  const { store } = await openStore(t, { folder, maxBytes, onWritten });
  const sample = (): void => void (mostBytes = Math.max(mostBytes, bytesOnDisk(folder)));
  const timer = setInterval(sample, sampleMs);
  const idleP999Ms = await idleDelay(bytes, Math.min(20, seconds / 10));
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const startMs = performance.now();
  while (written < writes && performance.now() - startMs < seconds * 1_000) {
    for (let step = 0; step < 32 && onTheirWay < mostOnTheirWay; step += 1) {
      onTheirWay += 1;
      const onDone = (): void => void (onTheirWay -= 1);
      store.store(keyOf(written), bodyOf(written, bytes), { head: 1n, onDone });
      written += 1;
    }
    await sleep(1);
  }
  await until(() => onTheirWay === 0);
  delay.disable();
  clearInterval(timer);
  sample();
  const took = (performance.now() - startMs) / 1_000;
  await store.close();
  // The resolution is part of each value.
  const [loopP999Ms, loopMaxMs] = [delay.percentile(99.9) / 1e6 - 1, delay.max / 1e6 - 1];
  return { writes: written, dropped, seconds: took, mostBytes, idleP999Ms, loopP999Ms, loopMaxMs };
}

async function idleDelay(bytes: number, seconds: number): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const startMs = performance.now();
  for (let number = 0; performance.now() - startMs < seconds * 1_000; await sleep(1)) {
    for (let step = 0; step < 32; step += 1) bodyOf((number += 1), bytes);
  }
  delay.disable();
  return delay.percentile(99.9) / 1e6 - 1;
}
