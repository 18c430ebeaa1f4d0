/** The results of the looks of `check`. */
import type { Problem } from '../../config/index.ts';

/** A fault of the value at `path`. */
export type CheckFinding = Pick<Problem, 'path' | 'message'>;

/** Problems and warnings about a part of the config. */
export interface Inspection {
  readonly findings: readonly CheckFinding[];
  readonly warnings: readonly string[];
}
