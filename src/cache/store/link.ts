import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { settlesWithin } from '../../ledger/index.ts';
import type { FromThread, StoreFill, StoreWork, ThreadSetup, ToThread } from './protocol.ts';

/** Ms before a thread that ended is started again. */
const restartMs = 5_000;
/** Longest wait in ms for the last works. A thread that hangs in a call of the system ends with the process. */
const closeMs = 1_000;

/** Receiver of the store's state. */
export interface StoreListener {
  /** The file in use changed; `fault`: in words for an operator. */
  onFile(number: number | undefined, fault: string | undefined): void;
}

/** The process's end of the messages with the store's thread. */
export class StoreLink {
  readonly #setup: ThreadSetup;
  readonly #listener: StoreListener;
  readonly #pending = new Map<number, (isDone: boolean) => void>();
  #thread: Worker | undefined;
  #nextId = 0;
  #timer: NodeJS.Timeout | undefined;
  #fill: StoreFill = { bytes: 0, middle: 0 };
  #isClosed = false;

  constructor(setup: ThreadSetup, listener: StoreListener) {
    this.#setup = setup;
    this.#listener = listener;
    this.#start();
  }

  get fill(): StoreFill {
    return this.#fill;
  }

  /** Resolves to whether the work was done, in the order of the calls. `move`: buffers that the thread takes over. */
  do(work: StoreWork, move: readonly ArrayBuffer[] = []): Promise<boolean> {
    const thread = this.#thread;
    if (thread === undefined) return Promise.resolve(false);
    const id = (this.#nextId += 1);
    return new Promise((resolve) => {
      this.#pending.set(id, resolve);
      thread.postMessage({ kind: 'work', id, work } satisfies ToThread, [...move]);
    });
  }

  /** A look-up found the file with this number damaged. */
  reportDamage(number: number): void {
    this.#thread?.postMessage({ kind: 'damaged', number } satisfies ToThread, []);
  }

  /** Resolves when the works before are done and the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
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
    if (message.kind === 'file') this.#listener.onFile(message.number, message.fault);
    if (message.kind !== 'done') return;
    this.#fill = message.fill ?? this.#fill;
    this.#pending.get(message.id)?.(message.isDone);
    this.#pending.delete(message.id);
  }

  #ended(): void {
    this.#thread = undefined;
    for (const resolve of this.#pending.values()) resolve(false);
    this.#pending.clear();
    if (this.#isClosed) return;
    this.#listener.onFile(undefined, 'its thread ended, and is started again');
    this.#timer = setTimeout(() => this.#start(), restartMs).unref();
  }
}
