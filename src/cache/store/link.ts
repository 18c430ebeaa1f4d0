/** The messages between a process and the thread that writes its store, and the process's end of them. */
import { fileURLToPath } from 'node:url';
import { Worker } from 'node:worker_threads';
import { settlesWithin } from '../../ledger/index.ts';
import type { ScopeMark } from '../purge/purge-scope.ts';

/** An answer to write, with its read's reference. Its bytes are in the batch: 16 of the name, then the record. */
export interface StoredWrite {
  /** Offset of the name in the batch's bytes. */
  readonly at: number;
  /** Bytes of the record behind the name. */
  readonly length: number;
  readonly digest: string;
  /** The term in which the answer was read. */
  readonly term: string;
  /** The reference's text behind the digest. */
  readonly rest: string;
  /** Marks of the read, by which a purge finds it. */
  readonly read: number;
  readonly account: number;
  /** The present record is damaged. */
  readonly overwrite: boolean;
}

/** Answers that are written in one transaction. */
export interface WriteBatch {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly writes: readonly StoredWrite[];
  /** References that were used, whose rows move behind newer ones. */
  readonly renewals: readonly Renewal[];
}

/** A reference that was used while it was among the older half. */
export interface Renewal {
  readonly name: Uint8Array;
  /** The row's `id` when it was used. */
  readonly id: number;
}

/** A work for the thread. Each is answered once, in order. */
export type StoreWork =
  | { readonly kind: 'write'; readonly batch: WriteBatch }
  /** Hides the references with these marks. */
  | { readonly kind: 'purge'; readonly marks: readonly ScopeMark[] }
  /** Deletes one read's reference. */
  | { readonly kind: 'forget'; readonly name: Uint8Array }
  | { readonly kind: 'put terms'; readonly ledger: string; readonly fields: Readonly<Record<string, string>> }
  | { readonly kind: 'delete terms'; readonly ledger: string; readonly fields: readonly string[] }
  /** Records this process as a member of the term. */
  | { readonly kind: 'beat'; readonly ledger: string; readonly term: string; readonly run: string };

/** A message to the thread. */
export type ToThread =
  | { readonly kind: 'work'; readonly id: number; readonly work: StoreWork }
  /** A look-up found the file damaged. */
  | { readonly kind: 'damaged'; readonly number: number }
  | { readonly kind: 'close' };

/** The fill of the file. */
export interface StoreFill {
  /** Bytes of pages in use. */
  readonly bytes: number;
  /** References with a lower `id` are among the older half. */
  readonly middle: number;
}

/** A message of the thread. */
export type FromThread =
  /** The work is done, or failed. */
  | { readonly kind: 'done'; readonly id: number; readonly isDone: boolean; readonly fill: StoreFill | undefined }
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

/** Ms before a thread that ended is started again. */
const restartMs = 5_000;
/** Longest wait in ms for the last works. A thread that hangs in a call of the system ends with the process. */
const closeMs = 1_000;

/** Called when the file in use changes; `fault`: in words for an operator. */
type OnFile = (number: number | undefined, fault: string | undefined) => void;

/** The process's end of the messages with the store's thread. */
export class StoreLink {
  readonly #setup: ThreadSetup;
  readonly #onFile: OnFile;
  readonly #pending = new Map<number, (isDone: boolean) => void>();
  #thread: Worker | undefined;
  #nextId = 0;
  #timer: NodeJS.Timeout | undefined;
  #fill: StoreFill = { bytes: 0, middle: 0 };
  #isClosed = false;

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
    if (message.kind === 'file') this.#onFile(message.number, message.fault);
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
    this.#onFile(undefined, 'its thread ended, and is started again');
    this.#timer = setTimeout(() => this.#start(), restartMs).unref();
  }
}
