/** The messages between a process and the thread that writes its store, and the process's end of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { settlesWithin } from '../../ledger/index.ts';
import { bodyOffsetOf, type CachedResponse, writeHead } from '../record.ts';
import { WriteBehind, type QueuedWrite, type WriteOutcome } from '../write-behind.ts';
import {
  nameBytes,
  type Renewal,
  type StoredColumns,
  type StoredWrite,
  type StoreFill,
  type StoreWork,
} from './rows.ts';

/** A message to the thread. */
export type ToThread =
  | { readonly kind: 'work'; readonly id: number; readonly work: StoreWork }
  /** A look-up found the file damaged. */
  | { readonly kind: 'damaged'; readonly number: number }
  | { readonly kind: 'close' };

/** A message of the thread. */
export type FromThread =
  /** The work is done; without `fill`, it failed. */
  | { readonly kind: 'done'; readonly id: number; readonly fill: StoreFill | undefined }
  /** The file in use; `undefined`: none, for the reason `fault`. */
  | { readonly kind: 'file'; readonly number: number | undefined; readonly fault: string | undefined };

/** The start of a thread. */
export interface ThreadSetup {
  readonly folder: string;
  /** Most bytes on the disk. */
  readonly maxBytes: number;
  /** Several processes of the gateway use the folder. */
  readonly isShared: boolean;
  /** The name of this start of the gateway. */
  readonly run: string;
}

/** An answer to write; `bytes`: those of its record. */
interface StoreWrite extends QueuedWrite {
  /** The row's name, of `nameBytes`. */
  readonly name: Buffer;
  readonly answer: CachedResponse;
  readonly columns: StoredColumns;
}

/** One batch: its copy takes less than a millisecond. */
const batch = { writes: 256, bytes: 1024 * 1024 };
const mostRenewals = 1_024;
/** Works of a thread that hangs, such as on a broken disk: further ones fail at once. */
const mostWorks = 64;
/** While a batch is on its way, the next one gathers. A killed process loses these answers. */
const gatherMs = 2;
/** Part of the store's bytes that one answer may take, and its most bytes. */
const largestShare = 1 / 64;
const mostAnswerBytes = 8 * 1024 * 1024;
/** Ms before a thread that ended is started again. */
const restartMs = 5_000;
/** Longest wait in ms for the last works. A thread that hangs in a call of the system ends with the process. */
const closeMs = 1_000;

/** Called when the file in use changes; `fault`: in words for an operator. */
type OnFile = (number: number | undefined, fault: string | undefined) => void;

/** Bytes of the answer's record; it may have none. */
export function recordBytes(answer: CachedResponse): number {
  return (bodyOffsetOf(answer) ?? Infinity) + answer.body.length;
}

/** The store's thread as its process has it: works in the order of the calls, and answers one batch at a time. */
export class StoreLink extends WriteBehind<StoreWrite> {
  readonly #setup: ThreadSetup;
  readonly #onFile: OnFile;
  readonly #pending = new Map<number, (isDone: boolean) => void>();
  readonly #renewals = new Map<number, Renewal>();
  #isRenewing = false;
  /** The file whose damage the thread learns of next. */
  #damaged: number | undefined;
  #thread: Worker | undefined;
  #nextId = 0;
  #timer: NodeJS.Timeout | undefined;
  #fill: StoreFill = { bytes: 0, middle: 0 };
  #isEnded = false;

  constructor(setup: ThreadSetup, onFile: OnFile, onWritten: (outcome: WriteOutcome, answers: number) => void) {
    const largest = Math.min(mostAnswerBytes, Math.floor(setup.maxBytes * largestShare));
    super({ writes: 4_096, bytes: 16 * 1024 * 1024, largest, batch, concurrent: 1, gatherMs }, onWritten);
    this.#setup = setup;
    this.#onFile = onFile;
    this.#start();
  }

  get fill(): StoreFill {
    return this.#fill;
  }

  /** Resolves to whether the work was done, in the order of the calls. `move`: buffers that the thread takes over. */
  do(work: StoreWork, move: readonly ArrayBuffer[] = []): Promise<boolean> {
    const thread = this.#thread;
    if (thread === undefined || this.#pending.size >= mostWorks) return Promise.resolve(false);
    const id = (this.#nextId += 1);
    return new Promise((resolve) => {
      this.#pending.set(id, resolve);
      thread.postMessage({ kind: 'work', id, work } satisfies ToThread, [...move]);
    });
  }

  /** Moves a row that was used behind newer ones. */
  renew(renewal: Renewal): void {
    if (this.#renewals.size < mostRenewals) this.#renewals.set(renewal.id, renewal);
    if (!this.#isRenewing) void this.#sendRenewals();
  }

  /** A look-up found the file with this number damaged. */
  reportDamage(number: number): void {
    if (this.#damaged === number) return;
    this.#damaged = number;
    this.#thread?.postMessage({ kind: 'damaged', number } satisfies ToThread, []);
  }

  /** Resolves when the works before are done and the thread has ended. */
  async end(): Promise<void> {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    const thread = this.#thread;
    if (thread === undefined) return;
    thread.ref();
    const ended = new Promise<void>((resolve) => thread.once('exit', () => resolve()));
    thread.postMessage({ kind: 'close' } satisfies ToThread, []);
    if (await settlesWithin(ended, closeMs)) return;
    thread.unref();
    void thread.terminate();
  }

  protected override async send(batch: readonly StoreWrite[]): Promise<WriteOutcome> {
    const renewals = [...this.#renewals.values()];
    this.#renewals.clear();
    const bytes = Buffer.allocUnsafeSlow(batch.reduce((sum, { bytes: length }) => sum + nameBytes + length, 0));
    let end = 0;
    const writes = batch.map(({ name, answer, bytes: length, columns }): StoredWrite => {
      const at = end;
      name.copy(bytes, at);
      writeHead(bytes, at + nameBytes, answer);
      end += nameBytes + length;
      answer.body.copy(bytes, end - answer.body.length);
      return { at, length, ...columns };
    });
    const isDone = await this.do({ kind: 'write', batch: { bytes, writes, renewals } }, [bytes.buffer]);
    return isDone ? 'written' : 'failed';
  }

  /** Writes those that no batch has taken along meanwhile. */
  async #sendRenewals(): Promise<void> {
    this.#isRenewing = true;
    do {
      await sleep(gatherMs, undefined, { ref: false });
      if (this.#renewals.size > 0) await this.send([]);
    } while (this.#renewals.size > 0);
    this.#isRenewing = false;
  }

  #start(): void {
    // Source or built code, like this file.
    const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
    const file = fileURLToPath(new URL(`thread.${extension}`, import.meta.url));
    // Arguments of the process, such as an SDK that --import registers, are not for the thread.
    const options = { workerData: this.#setup, execArgv: [] };
    let thread: Worker;
    try {
      thread = new Worker(file, options);
    } catch {
      // The system gives no further thread now; the listener is not ready before this call returns.
      queueMicrotask(() => this.#ended());
      return;
    }
    this.#thread = thread;
    thread.unref();
    thread.on('message', (message: FromThread) => this.#receive(message));
    thread.on('error', () => undefined);
    thread.once('exit', () => this.#ended());
  }

  #receive(message: FromThread): void {
    if (message.kind === 'file') {
      this.#damaged = undefined;
      this.#onFile(message.number, message.fault);
      return;
    }
    this.#fill = message.fill ?? this.#fill;
    this.#pending.get(message.id)?.(message.fill !== undefined);
    this.#pending.delete(message.id);
  }

  #ended(): void {
    this.#thread = undefined;
    this.#damaged = undefined;
    for (const resolve of this.#pending.values()) resolve(false);
    this.#pending.clear();
    if (this.#isEnded) return;
    this.#onFile(undefined, 'its thread ended, and is started again');
    this.#timer = setTimeout(() => this.#start(), restartMs).unref();
  }
}
