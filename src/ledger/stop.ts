/**
 * Cancellation with the interface of an AbortSignal that its users need, without an EventTarget. Each miss has several
 * signals and hardly ever fires one; EventTargets, their events and options cost more than all other bounds of a miss
 * together. An AbortSignal is a `StopSignal` as well.
 */
export interface StopSignal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: 'abort', listener: () => void, options?: { readonly once?: boolean }): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** Fires once: listeners are called then, in the order in which they were added, and never again. */
export class Stop implements StopSignal {
  aborted = false;
  reason: unknown;
  #listeners: (() => void)[] | undefined;

  abort(reason: unknown): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    const listeners = this.#listeners ?? [];
    // A listener that an earlier one removes is not called; one that is added now is not called either.
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

/** The reason of an aborted signal, as an Error. */
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
