/** Calls between the primary and a worker: typed by what each side handles, and bounded in time. */

/** What one side can be asked, by name. One argument each; what they return is the answer. */
export type Handlers = Readonly<Record<string, (argument: never) => unknown>>;

/** The handlers of `H`, as the other side calls them. */
type Argument<H, Name extends keyof H> = H[Name] extends (argument: infer A) => unknown ? A : never;
type Answer<H, Name extends keyof H> = H[Name] extends (argument: never) => infer R ? Awaited<R> : never;

type Message =
  | { readonly kind: 'call'; readonly id: number; readonly name: string; readonly argument: unknown }
  | { readonly kind: 'tell'; readonly name: string; readonly argument: unknown }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  | { readonly kind: 'fault'; readonly id: number; readonly message: string };

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** One end of a channel. `Theirs` are the handlers of the other end. */
export class Channel<Theirs extends object> {
  readonly #send: (message: Message) => void;
  readonly #handlers: Handlers;
  readonly #pending = new Map<number, Pending>();
  #lastId = 0;
  #isClosed = false;

  /** `send` hands a message to the other process; what it cannot deliver is lost, and the time-out tells. */
  constructor(send: (message: object) => void, handlers: object) {
    this.#send = send;
    this.#handlers = handlers as Handlers;
  }

  /** To be called with every message that comes. Messages come in the order they were sent. */
  take(raw: unknown): void {
    const message = raw as Message;
    if (message.kind === 'answer') this.#pending.get(message.id)?.resolve(message.value);
    else if (message.kind === 'fault') this.#pending.get(message.id)?.reject(new Error(message.message));
    else if (message.kind === 'tell') this.#handle(message.name, message.argument);
    else if (message.kind === 'call') this.#answer(message);
  }

  /** Asks the other side. Rejects when it fails, does not answer in time, or is gone. */
  call<Name extends keyof Theirs & string>(
    name: Name,
    argument: Argument<Theirs, Name>,
    timeoutMs: number,
  ): Promise<Answer<Theirs, Name>> {
    if (this.#isClosed) return Promise.reject(new Error('the process is gone'));
    const id = (this.#lastId += 1);
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const timer = setTimeout(() => reject(new Error(`${name}: no answer within ${timeoutMs} ms`)), timeoutMs);
    // What a process lives for are its connections.
    timer.unref();
    this.#pending.set(id, { resolve, reject });
    const ended = promise.finally(() => {
      clearTimeout(timer);
      this.#pending.delete(id);
    });
    try {
      this.#send({ kind: 'call', id, name, argument });
    } catch (error) {
      // What has no structured clone, or is nested too deeply for one.
      reject(error instanceof Error ? error : new Error(String(error)));
    }
    return ended as Promise<Answer<Theirs, Name>>;
  }

  /** Tells the other side, and wants no answer. */
  tell<Name extends keyof Theirs & string>(name: Name, argument: Argument<Theirs, Name>): void {
    if (!this.#isClosed) this.#send({ kind: 'tell', name, argument });
  }

  /** The other process is gone: nothing of it is waited for any more. */
  close(): void {
    this.#isClosed = true;
    for (const pending of this.#pending.values()) pending.reject(new Error('the process is gone'));
  }

  #handle(name: string, argument: unknown): unknown {
    const handler = this.#handlers[name];
    if (handler === undefined) throw new Error(`nothing is known of ${name}`);
    return handler(argument as never);
  }

  #answer({ id, name, argument }: Message & { readonly kind: 'call' }): void {
    new Promise((resolve) => resolve(this.#handle(name, argument)))
      .then((value) => this.#send({ kind: 'answer', id, value }))
      // Also where the answer cannot be sent.
      .catch((error: unknown) => this.#send({ kind: 'fault', id, message: String(error) }));
  }
}
