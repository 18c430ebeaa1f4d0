/** Keys that are kept where nobody tells of changes: looked at every few seconds. While they cannot be, the last known stay. */

/** JSON of a key by its SHA-256. */
export type Fields = Readonly<Record<string, string>>;

/** Where they are kept. */
export interface KeyStore {
  /** Rejects when they cannot be read; takes no longer than a few seconds. */
  read(): Promise<Fields>;
}

export interface KeyPollEvents {
  /** Called at the first reading and whenever they have changed; they are not read again before it is done. */
  onKeys(fields: Fields): void | Promise<void>;
  /** Once per change. */
  onTrouble(isOn: boolean, reason: string): void;
}

const pollMs = 2_000;

export class KeyPoll {
  readonly #store: KeyStore;
  readonly #events: KeyPollEvents;
  #timer: NodeJS.Timeout | undefined;
  #known: Fields | undefined;
  #isInTrouble = false;
  #isClosed = false;

  constructor(store: KeyStore, events: KeyPollEvents) {
    this.#store = store;
    this.#events = events;
  }

  /** Resolves when they have been read, or could not be. Goes on until `close`. */
  async start(): Promise<void> {
    try {
      await this.#take(await this.#store.read());
    } catch (error) {
      this.#trouble(true, error instanceof Error ? error.message : String(error));
    }
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => void this.start(), pollMs);
    this.#timer.unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async #take(fields: Fields): Promise<void> {
    if (this.#isClosed) return;
    this.#trouble(false, '');
    if (this.#known !== undefined && isSame(fields, this.#known)) return;
    this.#known = fields;
    await this.#events.onKeys(fields);
  }

  #trouble(isOn: boolean, reason: string): void {
    if (isOn === this.#isInTrouble || this.#isClosed) return;
    this.#isInTrouble = isOn;
    this.#events.onTrouble(isOn, reason);
  }
}

/** In whatever order: nothing is sorted and no text made of all of them, every few seconds. */
function isSame(fields: Fields, others: Fields): boolean {
  const names = Object.keys(fields);
  return names.length === Object.keys(others).length && names.every((name) => fields[name] === others[name]);
}
