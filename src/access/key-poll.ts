/** Keys that are kept where nobody tells of changes: looked at every few seconds. While they cannot be, the last known stay. */

/** Where they are kept: JSON of a key by its SHA-256. */
export interface KeyStore {
  /** Rejects when they cannot be read; takes no longer than a few seconds. */
  read(): Promise<Readonly<Record<string, string>>>;
}

export interface KeyPollEvents {
  /** Called at the first reading and whenever they have changed. */
  onKeys(fields: Readonly<Record<string, string>>): void;
  /** Once per change. */
  onTrouble(isOn: boolean, reason: string): void;
}

const pollMs = 2_000;

export class KeyPoll {
  readonly #store: KeyStore;
  readonly #events: KeyPollEvents;
  #timer: NodeJS.Timeout | undefined;
  #known: string | undefined;
  #isInTrouble = false;
  #isClosed = false;

  constructor(store: KeyStore, events: KeyPollEvents) {
    this.#store = store;
    this.#events = events;
  }

  /** Resolves when they have been read, or could not be. Goes on until `close`. */
  async start(): Promise<void> {
    try {
      this.#take(await this.#store.read());
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

  #take(fields: Readonly<Record<string, string>>): void {
    if (this.#isClosed) return;
    this.#trouble(false, '');
    const text = JSON.stringify(Object.entries(fields).sort(([left], [right]) => (left < right ? -1 : 1)));
    if (text === this.#known) return;
    this.#known = text;
    this.#events.onKeys(fields);
  }

  #trouble(isOn: boolean, reason: string): void {
    if (isOn === this.#isInTrouble || this.#isClosed) return;
    this.#isInTrouble = isOn;
    this.#events.onTrouble(isOn, reason);
  }
}
