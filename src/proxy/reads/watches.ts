/** Watches of reads of "latest": one read of a node for each key and interval, and an event where its body changed. */
import type { Freshness } from './freshness.ts';
import type { Pulse } from './pulse.ts';
import type { StreamClient } from './push-types.ts';
import type { Read, ReadResult } from './read.ts';
import type { Reader } from './reader.ts';

/** The watches of one process, by key. */
export class Watches {
  /** `settings`: the live interval of rounds. */
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_reader: Reader, _freshness: Freshness, _pulse: Pulse, _settings: { readonly intervalMs: number }) {}

  /** Begins with `first`, the answer to an ordinary read. The client's sink is open. */
  open(_client: StreamClient, _read: Read, _first: ReadResult): void {}
}
