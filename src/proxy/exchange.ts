/** One client request and the answer being given to it. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { HttpMetrics, RouteName } from '../metrics/http-metrics.ts';

/** What a request's end is reported to. */
export interface ExchangeObserver {
  readonly metrics: HttpMetrics;
  /** Called once per request, when its answer is out or its client gone. */
  onEnd(exchange: Exchange, seconds: number): void;
}

export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: RouteName;
  readonly #observer: ExchangeObserver;
  readonly #startedMs = performance.now();
  #abort: AbortController | undefined;
  #hasEnded = false;

  constructor(request: IncomingMessage, response: ServerResponse, route: RouteName, observer: ExchangeObserver) {
    this.request = request;
    this.response = response;
    this.route = route;
    this.#observer = observer;
    observer.metrics.started();
  }

  /**
   * Aborts when the client hangs up. Made on demand: who answers at once never waits for anything, and a listener
   * for each cached hit would cost more than finding it.
   */
  get signal(): AbortSignal {
    if (this.#abort === undefined) {
      const abort = new AbortController();
      this.#abort = abort;
      const onClose = (): void => {
        if (!this.#hasEnded) abort.abort(new Error('the client hung up'));
        this.end();
      };
      if (this.response.destroyed) onClose();
      else this.response.once('close', onClose);
    }
    return this.#abort.signal;
  }

  /** Reports the end, once: the answer is handed to the socket, or there will be none. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const seconds = (performance.now() - this.#startedMs) / 1000;
    this.#observer.metrics.finished(this.route, this.response.statusCode, seconds);
    this.#observer.onEnd(this, seconds);
  }

  get isHead(): boolean {
    return this.request.method === 'HEAD';
  }

  /** The request target as it came, percent-encoded, with its query. */
  get target(): string {
    return this.request.url ?? '/';
  }
}
