/** Words of client requests that metrics, traces, log lines and the status page share. */
import type { TraceReference } from './family.ts';

/**
 * Sources of answers. `collapsed`: another client's upstream read. `miss`: a read of a node. `passed`: passed through to
 * a node, never cached. `local`: made here. `refused`: the client's error, or it hung up before the answer began.
 * `failed`: an error that is not the client's.
 */
export const outcomes = [
  'memory',
  'store',
  'redis',
  'collapsed',
  'miss',
  'passed',
  'local',
  'refused',
  'failed',
] as const;
/** Label `outcome` of a client request. */
export type Outcome = (typeof outcomes)[number];

/** Bucket bounds for durations of requests, in seconds. */
export const requestSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** Bucket bounds for versions from a served state to the newest one. */
export const lagVersions = [0, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 100_000] as const;

/** An ended request: answered, or its client is gone. */
export interface CountedRequest {
  /** `Route.name` of the client port. */
  readonly route: string;
  /** Status of the answer, sent or not. */
  readonly status: number;
  /** Source of the answer, sent or not. */
  readonly outcome: Outcome;
  /** `false`: the client hung up before; see `countedStatus` of the client port. */
  readonly isHeadSent: boolean;
  /**
   * Bytes of the answer's body as handed to the connection, coded. A kept answer counts whole, also when the client leaves
   * before its end; of a streamed one counts what was passed on.
   */
  readonly bytes: number;
  /** Its span, when the trace is sampled. */
  readonly trace?: TraceReference | undefined;
}
