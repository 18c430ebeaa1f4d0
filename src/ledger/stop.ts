/**
 * The wish that something be stopped: what an AbortSignal tells, without being an EventTarget. Each miss has several of
 * them and hardly ever uses one, and an EventTarget, its events and its options cost more than all else that a miss
 * does for its bounds. An AbortSignal is one as well.
 */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Wishes it, once: listeners are called then, in the order they were added, and never again. */
export class CancelToken implements StopSignal {
  aborted = false;
  reason: unknown;
  #listeners: (() => void)[] | undefined;

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const listeners = this.#listeners ?? [];
    // One that is removed by another before its turn is not called; one that is added hears nothing.
    while (listeners.length > 0) listeners.shift()?.();
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.aborted) return;
    (this.#listeners ??= []).push(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const listeners = this.#listeners;
    const at = listeners?.indexOf(listener) ?? -1;
    if (at !== -1) listeners?.splice(at, 1);
  }
}

/** Why it was wished, as an Error. */
export function stopReason({ reason }: StopSignal): Error {
  return reason instanceof Error ? reason : new Error('aborted', { cause: reason });
}

/** Resolves when `done` has settled, or on abort. Rejects as `done` does. */
export function doneOrStopped(done: unknown, signal: StopSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => resolve();
    const leave = (): void => signal.removeEventListener('abort', stop);
    signal.addEventListener('abort', stop);
    if (signal.aborted) stop();
    Promise.resolve(done).finally(leave).then(stop, reject);
  });
}
