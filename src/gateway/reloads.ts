/** The config that is in force, and what becomes of others that are read while the gateway runs. */
import { compareConfigs } from '../config/changes.ts';
import type { Config } from '../config/config.ts';
import type { ReloadMetrics, ReloadResult } from '../metrics/reload-metrics.ts';
import type { ReloadStatus } from '../proxy/operations/operations-server.ts';
import type { Journal } from '../proxy/operations/status/events.ts';

export interface ReloadsParts {
  readonly journal: Journal;
  readonly metrics: ReloadMetrics;
  /** Puts the live keys of a config in force; the config in force before has all others. Called by one at a time. */
  readonly apply: (config: Config) => Promise<void>;
  /** A config is in force, whether anything of it has changed or not. */
  readonly onInForce?: (config: Config) => void;
}

export class Reloads {
  readonly #parts: ReloadsParts;
  #config: Config;
  #status: ReloadStatus | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(config: Config, parts: ReloadsParts) {
    this.#config = config;
    this.#parts = parts;
  }

  /** What the gateway does: of keys that need a restart, the values it was started with. */
  get config(): Config {
    return this.#config;
  }

  /** The last time; `undefined` since the start. */
  get status(): ReloadStatus | undefined {
    return this.#status;
  }

  /** A config was read and found to be in order. Never rejects: what cannot be put in force changes nothing. */
  take(config: Config): Promise<void> {
    this.#last = this.#last.then(() => this.#take(config));
    return this.#last;
  }

  /** A config was read and is wrong, for these reasons. */
  refuse(problems: readonly string[]): void {
    const { journal } = this.#parts;
    journal.tell(
      'config refused',
      { problems },
      'the config is wrong: nothing of it is applied, what was in force stays so',
    );
    this.#note('refused', this.#status?.needsRestart ?? []);
  }

  async #take(next: Config): Promise<void> {
    const { journal, apply } = this.#parts;
    const before = this.#config;
    const { live, restart, effective } = compareConfigs(before, next);
    try {
      if (live.length > 0) await apply(effective);
    } catch (error) {
      const fields = { cause: String(error) };
      journal.tell('config refused', fields, 'the config could not be applied: what was in force stays so');
      await apply(before).catch((again: unknown) =>
        journal.tell('config refused', { cause: String(again) }, 'nor could the one before'),
      );
      this.#note('refused', this.#status?.needsRestart ?? []);
      return;
    }
    this.#config = effective;
    this.#parts.onInForce?.(effective);
    this.#note(live.length > 0 ? 'applied' : 'unchanged', restart);
    if (live.length > 0) journal.tell('config applied', { keys: live }, 'the config was read again and is in force');
    else journal.tell('config unchanged', {}, 'the config was read again: nothing has changed that can change now');
    if (restart.length === 0) return;
    journal.tell('config restart', { needsRestart: restart }, 'keys of the config that take a restart have changed');
  }

  #note(result: ReloadResult, needsRestart: readonly string[]): void {
    this.#parts.metrics.reloaded(result);
    this.#status = { at: new Date().toISOString(), result, needsRestart };
  }
}
