/** One of the comparisons that `npm run bench` makes. */
import type { Flags } from './options.ts';
import type { ShortLine } from './short-table.ts';

export interface Part {
  /** As `--only` has it. */
  readonly name: string;
  /** Of its section in RESULTS.md. */
  readonly heading: string;
  /** Starts what it needs, and stops it. Throws with what is not installed. */
  run(flags: Flags): Promise<PartResult>;
}

export interface PartResult {
  /** Words and tables, as they stand in RESULTS.md. */
  readonly text: string;
  /** What the README shows of it. */
  readonly short: readonly ShortLine[];
}
