/** Who asks, and what it may: what the rest of the gateway knows of a client with or without a key. */

/** What a client may ask for. `pass`: everything that is passed through. */
export type AccessOperation = 'read' | 'view' | 'encode' | 'submit' | 'pass';

/** Limits under one name. Bounds that are absent do not bound. */
export interface Plan {
  readonly name: string;
  /** The span that `requests` and `cost` are counted over. */
  readonly windowMs: number;
  readonly requests?: number | undefined;
  readonly cost?: number | undefined;
  /** Requests within a second. */
  readonly burst?: number | undefined;
  /** Requests under way at once. */
  readonly concurrency?: number | undefined;
  /** How long a request over a limit waits for its turn. */
  readonly waitMs: number;
  readonly operations: ReadonlySet<AccessOperation>;
  /** Pages that may use it; `undefined`: any. */
  readonly origins?: ReadonlySet<string> | undefined;
}

export interface Principal {
  /** The key's name; `undefined`: no key was sent. */
  readonly name: string | undefined;
  /** Who is counted together: several keys may be of one tenant. Of requests without a key it is the address. */
  readonly tenant: string;
  readonly plan: Plan;
  readonly operations: ReadonlySet<AccessOperation>;
  readonly origins: ReadonlySet<string> | undefined;
}
