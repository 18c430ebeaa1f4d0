import type { Logger } from 'pino';
import type { LoadedConfig } from '../config/source/load.ts';
import { ConfigError, formatProblem } from '../config/source/problem.ts';
import { FileWatch } from '../config/source/text-file.ts';
import type { RunningGateway } from '../gateway/gateway.ts';

/** Source of a config, so that it can be read again. */
export interface ConfigSource {
  readonly file: string | undefined;
  /** Digest of the file at its first reading. */
  readonly digest: string | undefined;
  /** Reads the file again, under the same flags and variables. Throws as `loadConfig`. */
  readonly load: () => LoadedConfig;
}

/** Parts of a reload: the source of the config, the gateway that applies it, and the log. */
export interface ReloadParts {
  readonly source: ConfigSource;
  readonly gateway: Pick<RunningGateway, 'reloads'>;
  readonly log: Logger;
}

/** Reads the config again on SIGHUP and when its file changes. */
export class Reloading {
  readonly #parts: ReloadParts;
  readonly #watch: FileWatch | undefined;

  constructor(parts: ReloadParts) {
    this.#parts = parts;
    const { file, digest } = parts.source;
    if (file === undefined) return;
    this.#watch = new FileWatch([file], {
      digest,
      onChange: () => this.#reload(),
      onMissing: () => parts.log.warn({ file }, 'the config file cannot be read: the config in force stays'),
    });
  }

  /** SIGHUP: the file is read, whether it has changed or not. */
  hangUp(): void {
    if (this.#watch === undefined) {
      this.#parts.log.warn('SIGHUP: there is no config file to read again, so nothing changes');
      return;
    }
    this.#watch.note();
    this.#reload();
  }

  close(): void {
    this.#watch?.close();
  }

  #reload(): void {
    const { source, gateway, log } = this.#parts;
    let loaded: LoadedConfig;
    try {
      loaded = source.load();
    } catch (error) {
      gateway.reloads.refuse(error instanceof ConfigError ? error.problems.map(formatProblem) : [String(error)]);
      return;
    }
    for (const warning of loaded.warnings) log.warn(warning);
    void gateway.reloads.take(loaded.config);
  }
}
