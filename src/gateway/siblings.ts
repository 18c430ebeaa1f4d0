/** What processes that serve one port together tell each other. Who serves alone has none of it. */
import type { Finding } from '../upstream/probe.ts';

/** From this process to the others. */
export interface Siblings {
  /** Whether this process is the one that asks quiet nodes for all. */
  isOnDuty(): boolean;
  /** The node with this name was looked at here. */
  tellFound(upstream: string, finding: Finding): void;
  /** A node took a transaction. Resolves when the others know, or do not say so in time. */
  tellTaken(hash: string, upstream: string): Promise<void>;
  /** A node encoded this function differently. */
  tellDistrusted(functionId: string): void;
}

/** From the others to this process. */
export interface Heard {
  found(upstream: string, finding: Finding): void;
  taken(hash: string, upstream: string): void;
  distrusted(functionId: string): void;
}
