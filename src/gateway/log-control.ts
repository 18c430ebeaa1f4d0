/** What is logged, in one process: the config says it, and operators may say otherwise while it runs. */
import type { Logger } from 'pino';
import type { AccessLogConfig, LogConfig } from '../config/config.ts';

export class LogControl {
  readonly #log: Logger;
  #inForce: LogConfig;

  constructor(log: Logger, config: LogConfig) {
    this.#log = log;
    this.#inForce = config;
  }

  get access(): AccessLogConfig {
    return this.#inForce.access;
  }

  set(next: LogConfig): void {
    // A log of its own level was given by whoever started this.
    if (next.level !== this.#inForce.level) this.#log.level = next.level;
    this.#inForce = next;
  }
}
