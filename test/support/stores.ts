/** Stores on folders of their own, with the thread that writes them. */
import type { CachedResponse } from '../../src/cache/record.ts';
import type { CurrentEpoch } from '../../src/cache/epoch/registry.ts';
import type { CacheKey } from '../../src/cache/key.ts';
import { AnswerStore } from '../../src/cache/store/store.ts';
import type { WriteOutcome } from '../../src/cache/write-behind.ts';
import { eventually, until } from './eventually.ts';
import type { Ending } from './temporary-folder.ts';

const place: CurrentEpoch = {
  ledger: '4.test',
  epoch: { id: '0k3v9aq2', bornMs: 1, before: [], checkpoint: { version: 0n, root: '' } },
};

/** The least that the config allows. */
export const leastBytes = 64 * 1024 * 1024;

interface TestStoreWriteOptions {
  readonly folder: string;
  readonly maxBytes?: number;
  /** Default: one process uses the folder. */
  readonly isShared?: boolean;
  readonly run?: string;
  readonly place?: () => CurrentEpoch | undefined;
  readonly onWritten?: (outcome: WriteOutcome, answers: number) => void;
}

/** Opens a store, which is closed after the test; and the faults that it has reported. */
export function startStore(t: Ending, options: TestStoreWriteOptions) {
  const { folder, maxBytes = leastBytes, isShared = false, run = 'one' } = options;
  const faults: (string | undefined)[] = [];
  const setup = { folder, maxBytes, isShared, run };
  const store = new AnswerStore(setup, {
    place: options.place ?? (() => place),
    findAnswer: () => undefined,
    onLookup: () => {},
    onWritten: options.onWritten ?? (() => {}),
    onFault: (fault) => faults.push(fault),
  });
  t.after(() => store.close());
  /** The body that a look-up finds, or the reason for a miss. */
  const findNow = async (key: CacheKey): Promise<string> => {
    const found = await store.find(key);
    return 'answer' in found ? found.answer.body.toString() : found.miss;
  };
  return {
    store,
    faults,
    /** Writes an answer; resolves to whether every worker finds it. */
    write: (key: CacheKey, answer: CachedResponse, overwrite = false) =>
      new Promise<boolean>((onDone) => store.store(key, answer, { head: 1n, overwrite, onDone })),
    findNow,
    /** `findNow`, past the rest that a slow look-up begins on a busy machine. */
    find: (key: CacheKey) =>
      eventually(
        () => findNow(key),
        (found) => found !== 'unavailable',
      ),
  };
}

/** Opens a store; resolves when it is in use. */
export async function openStore(t: Ending, options: TestStoreWriteOptions) {
  const opened = startStore(t, options);
  await until(() => opened.store.reader !== undefined && opened.store.fault === undefined);
  return opened;
}
