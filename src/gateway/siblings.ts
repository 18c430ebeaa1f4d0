/** What processes that serve one port together tell each other. Who serves alone has none of it. */
import type { Desk } from '../access/limits-remote.ts';
import type { CacheKey } from '../cache/key.ts';
import type { Distrusted } from '../encode/distrusted.ts';
import type { Gate } from '../proxy/server-parts.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Finding } from '../upstream/probe.ts';
import type { Shown } from '../upstream/shown.ts';

/** From this process to the others. */
export interface Siblings {
  /** What all of them have shown. */
  readonly shown: Shown;
  readonly gate: Gate;
  /** Counts what clients may do for all of them, where Redis does not. */
  readonly desk: Desk;
  /** The text of the file of keys that others have put in force; `undefined` where none was told. */
  readonly lastKeys: string | undefined;
  /** What the others leave to nodes because a node encoded it differently. */
  readonly distrusted: Distrusted;
  /** This text of it is in force here: for those who start while the file is wrong or gone. */
  tellKeys(text: string): void;
  /** Gives what agreeing takes of this process's fleet; to be called once, before anything is asked. */
  attach(fleet: Fleet): void;
  /** Tells at once what the others know of the nodes; to be called once, before any is asked. */
  tellKnown(hear: Heard['found']): void;
  /** The fleet has begun a generation: to be begun by all. */
  startOver(): void;
  /** Whether this process is the one that asks quiet nodes for all. */
  isOnDuty(): boolean;
  /** The node with this name was looked at here. */
  tellFound(upstream: string, finding: Finding): void;
  /** A node took a transaction. Resolves when the others know, or do not say so in time. */
  tellTaken(hash: string, upstream: string): Promise<void>;
  /** A node encoded this function differently. */
  tellDistrusted(functionId: string): void;
  /** Nodes disagree on this read: it is to be forgotten. */
  tellDropped(key: CacheKey): void;
}

/** From the others to this process. */
export interface Heard {
  found(upstream: string, finding: Finding): void;
  taken(hash: string, upstream: string): void;
  distrusted(functionId: string): void;
  dropped(key: CacheKey): void;
}
