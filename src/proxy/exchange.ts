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
  readonly #startedMs = performance.now();
  #abort: AbortController | undefined;

  constructor(request: IncomingMessage, response: ServerResponse, route: RouteName, observer: ExchangeObserver) {
    this.request = request;
    this.response = response;
    this.route = route;
    observer.metrics.started();
    response.once('close', () => {
      const seconds = (performance.now() - this.#startedMs) / 1000;
      observer.metrics.finished(route, response.statusCode, seconds);
      observer.onEnd(this, seconds);
      if (!response.writableFinished) this.#abort?.abort(new Error('the client hung up'));
    });
  }

  /** Aborts when the client hangs up. Made on demand: a cache hit never needs it. */
  get signal(): AbortSignal {
    this.#abort ??= new AbortController();
    if (this.response.destroyed) this.#abort.abort(new Error('the client hung up'));
    return this.#abort.signal;
  }

  get isHead(): boolean {
    return this.request.method === 'HEAD';
  }

  /** The request target as it came, percent-encoded, with its query. */
  get target(): string {
    return this.request.url ?? '/';
  }
}
