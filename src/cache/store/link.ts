/** The messages between a process and the thread that writes its store, and the process's end of them. */
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { settlesWithin } from '../../ledger/index.ts';
import type { StoreFill, StoreWork } from './rows.ts';

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
  readonly maxBytes: number;
  /** Several processes of the gateway use the folder. */
  readonly isShared: boolean;
  /** The name of this start of the gateway. */
  readonly run: string;
}

/** Works of a thread that hangs, such as on a broken disk: further ones fail at once. */
const mostWorks = 64;
/** Ms before a thread that ended is started again. */
const restartMs = 5_000;
/** Longest wait in ms for the last works. A thread that hangs in a call of the system ends with the process. */
const closeMs = 1_000;

/** Called when the file in use changes; `fault`: in words for an operator. */
type OnFile = (number: number | undefined, fault: string | undefined) => void;

/** The store's thread as its process has it: works in the order of the calls. */
export class StoreLink {
  readonly #setup: ThreadSetup;
  readonly #onFile: OnFile;
  readonly #pending = new Map<number, (isDone: boolean) => void>();
  /** The file whose damage the thread learns of next. */
  #damaged: number | undefined;
  #thread: Worker | undefined;
  #nextId = 0;
  #timer: NodeJS.Timeout | undefined;
  #fill: StoreFill = { bytes: 0, middle: 0 };
  #isEnded = false;

  constructor(setup: ThreadSetup, onFile: OnFile) {
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
