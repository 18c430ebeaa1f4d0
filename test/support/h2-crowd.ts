/** Clients of HTTP/2 that keep a connection full, and reconnect after GOAWAY. */
import { connect, type ClientHttp2Session } from 'node:http2';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { askH2 } from './tls.ts';

export interface H2CrowdOptions {
  readonly ca: string;
  /** Target address, called for each connection. */
  readonly origin: () => string;
  readonly clients: number;
  /** Requests that each client has under way at once. */
  readonly streams: number;
  readonly path: (count: number) => string;
}

/** Of each stream between two requests: without it a crowd only measures the machine. */
const restMs = 250;

/** What says that the gateway did not look at the request, so that it may be asked again (RFC 9113 8.7). */
const notLookedAt = /REFUSED_STREAM|GOAWAY_SESSION|INVALID_SESSION|New streams cannot be created/;

export class H2Crowd {
  answered = 0;
  /** Requests that were asked again, because the first was not looked at. */
  repeated = 0;
  readonly failed: string[] = [];
  readonly #options: H2CrowdOptions;
  readonly #lives: Promise<unknown>;
  #count = 0;
  #isOver = false;

  constructor(t: TestContext, options: H2CrowdOptions) {
    this.#options = options;
    this.#lives = Promise.all(Array.from({ length: options.clients }, () => this.#live()));
    t.after(() => this.end());
  }

  /** Resolves when every last request is over. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#lives;
  }

  async #live(): Promise<void> {
    const { ca, origin, streams } = this.#options;
    let session: ClientHttp2Session | undefined;
    const sessionNow = (): ClientHttp2Session => {
      if (session === undefined || session.closed || session.destroyed) {
        session = connect(origin(), { ca });
        session.on('error', () => undefined);
      }
      return session;
    };
    const ask = async (): Promise<void> => {
      while (!this.#isOver) {
        await this.#ask(sessionNow);
        await sleep(restMs);
      }
    };
    await Promise.all(Array.from({ length: streams }, ask));
    session?.close();
  }

  async #ask(session: () => ClientHttp2Session): Promise<void> {
    const path = this.#options.path((this.#count += 1));
    for (let tries = 0; ; tries += 1) {
      try {
        const { status } = await askH2(session(), { path });
        if (status === 200) this.answered += 1;
        else this.failed.push(`${path}: ${status}`);
        return;
      } catch (error) {
        if (!notLookedAt.test(String(error)) || tries === 10) {
          this.failed.push(`${path}: ${String(error)}`);
          return;
        }
        this.repeated += 1;
      }
    }
  }
}
