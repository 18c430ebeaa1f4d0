/** The principal of a request: the rights and limits of a client, with or without a key. */
import type { Bounds } from '../limits/counter.ts';

/** The operations that plans and keys grant. `pass`: every path that is passed through. */
export type AccessOperation = 'read' | 'view' | 'encode' | 'submit' | 'pass';

/** Rights and limits under one name. */
export interface Plan extends Bounds {
  readonly name: string;
  /** Longest wait of a request over a limit, in ms. */
  readonly waitMs: number;
  readonly operations: ReadonlySet<AccessOperation>;
  /** Origins that may use the plan; `undefined`: any. */
  readonly origins?: ReadonlySet<string> | undefined;
}

/** The sender of a request. */
export interface Principal {
  /** The key's name; `undefined`: no key was sent. */
  readonly name: string | undefined;
  /** The unit of limits: several keys may share one. Without a key, the client's `countedNetwork`. */
  readonly tenant: string;
  readonly plan: Plan;
  readonly operations: ReadonlySet<AccessOperation>;
  readonly origins: ReadonlySet<string> | undefined;
}
