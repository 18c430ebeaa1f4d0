/** The pulse of streams: the state that reads of "latest" share, looked for ten times a second while somebody listens. */
import type { Fleet, PublishedState } from '../../upstream/index.ts';

/** Called at each beat. `isNewLedger`: the state is of another generation than that of the beat before. */
export type PulseListener = (state: PublishedState, isNewLedger: boolean) => void;

/** The pulse of one process. */
export class Pulse {
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_fleet: Fleet, _settings: { readonly maxStalenessMs: number }) {}

  /** The state of the last beat; `undefined`: none yet. */
  get state(): PublishedState | undefined {
    return undefined;
  }

  /** Returns the end of the listening. */
  listen(_onBeat: PulseListener): () => void {
    return () => undefined;
  }

  close(): void {}
}
