/** The config in force, and its replacement at run time. */
import type { Registry } from 'prom-client';
import { compareConfigs, type Config, ConfigError, type Problem } from '../config/index.ts';
import { Counter, Gauge, type Journal } from '../metrics/index.ts';
import type { ReloadStatus } from '../proxy/operations/index.ts';

/** The part of the gateway that configs are applied to. */
interface Reloaded {
  readonly journal: Journal;
  readonly registry: Registry;
  /** Applies the live keys of a config whose other keys are those in force. One call at a time. */
  apply(config: Config): Promise<void>;
}

/** Places of problems that are published; the log has all problems. */
const mostPlaces = 5;

/** Applies configs one after the other, and records the results. */
export class Reloads {
  readonly #part: Reloaded;
  readonly #onInForce: (config: Config) => void;
  readonly #count: (result: ReloadStatus['result']) => void;
  #config: Config;
  #status: ReloadStatus | undefined;
  #succeededAtMs = Date.now();
  #last: Promise<void> = Promise.resolve();

  /** `onInForce`: called when a valid config was read, changed or not. The start counts as a success. */
  constructor(config: Config, part: Reloaded, onInForce: (config: Config) => void) {
    this.#config = config;
    this.#part = part;
    this.#onInForce = onInForce;
    const { registry } = part;
    this.#count = new Counter(registry, {
      name: 'ledgergate_config_reloads_total',
      help: 'Times the config was read again while the gateway ran: applied, unchanged (nothing that can change now), refused (it is wrong).',
      labels: { result: ['applied', 'unchanged', 'refused'] },
    }).by('result');
    new Gauge(registry, {
      name: 'ledgergate_config_last_reload_success_timestamp_seconds',
      help: 'When the config was last read and found to be in order, Unix time.',
      read: () => this.#succeededAtMs / 1000,
    });
    new Gauge(registry, {
      name: 'ledgergate_config_last_reload_successful',
      help: '0 while the config file, as it was read last, is wrong and what was in force before still is; 1 otherwise.',
      read: () => Number(this.#status?.result !== 'refused'),
    });
  }

  /** The config in force: keys that need a restart have their values of the start. */
  get config(): Config {
    return this.#config;
  }

  /** The last reload; `undefined` before the first. */
  get status(): ReloadStatus | undefined {
    return this.#status;
  }

  /** Applies a valid config. Never rejects: a failure restores the config before. */
  take(config: Config): Promise<void> {
    this.#last = this.#last.then(() => this.#take(config));
    return this.#last;
  }

  /** Records an invalid config. */
  refuse(problems: readonly Problem[]): void {
    const { journal } = this.#part;
    const places = problems.slice(0, mostPlaces).map((problem) => ConfigError.format({ ...problem, message: '' }));
    const fields = { problems: problems.map((problem) => ConfigError.format(problem)) };
    journal.record('config refused', fields, 'the config is invalid: the config in force stays', { places });
    this.#note('refused', this.#status?.needsRestart ?? [], places);
  }

  async #take(next: Config): Promise<void> {
    const { journal } = this.#part;
    const before = this.#config;
    const { live, restart, effective } = compareConfigs(before, next);
    try {
      if (live.length > 0) await this.#part.apply(effective);
    } catch (error) {
      const fields = { cause: String(error) };
      journal.record('config refused', fields, 'the config could not be applied: the config in force stays');
      await this.#part
        .apply(before)
        .catch((again: unknown) =>
          journal.record('config refused', { cause: String(again) }, 'the config in force could not be restored'),
        );
      this.#note('refused', this.#status?.needsRestart ?? []);
      return;
    }
    this.#config = effective;
    this.#onInForce(effective);
    this.#note(live.length > 0 ? 'applied' : 'unchanged', restart);
    if (live.length > 0) journal.record('config applied', { keys: live }, 'the config was reloaded and is in force');
    else journal.record('config unchanged', {}, 'the config was reloaded: no live key has changed');
    if (restart.length === 0) return;
    journal.record('config restart', { needsRestart: restart }, 'changed keys of the config need a restart');
  }

  #note(result: ReloadStatus['result'], needsRestart: readonly string[], refused?: readonly string[]): void {
    this.#count(result);
    const at = new Date();
    if (result !== 'refused') this.#succeededAtMs = at.getTime();
    this.#status = { at: at.toISOString(), result, needsRestart, refused };
  }
}
