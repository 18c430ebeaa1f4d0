/** Reports answers that are written without an `Exchange`. */
import type { LedgerVersion } from '../../../ledger/index.ts';
import type { Outcome, RouteName } from '../../../metrics/index.ts';
import type { AdmittedRequest } from '../../../access/index.ts';
import type { ExchangeObserver, RequestSummary } from '../exchange.ts';

/** Summary of an answer; one object serves all answers of a kind. */
export class HitSummary implements RequestSummary {
  readonly isHeadSent = true;
  readonly outcome: Outcome;
  readonly upstream = undefined;
  readonly upstreamMs = 0;
  readonly bug = undefined;
  readonly gasUsed = undefined;
  admitted: AdmittedRequest | undefined;
  bodyBytes = 0;
  method: 'GET' | 'HEAD' | 'POST' = 'GET';
  route: RouteName = 'none';
  status = 200;
  version: LedgerVersion | undefined;
  bytes = 0;

  constructor(outcome: 'memory' | 'local') {
    this.outcome = outcome;
  }

  /** Counts the answer, charges it, and logs it. `startedMs`: of `performance.now()`. */
  report(observer: ExchangeObserver, startedMs: number): void {
    const { admitted, status } = this;
    const { metrics } = observer;
    metrics.started();
    const seconds = (performance.now() - startedMs) / 1000;
    metrics.finished(this, seconds);
    if (admitted !== undefined) {
      admitted.follow(this);
      admitted.settle({ headersSent: true, statusCode: status });
    }
    observer.onEnd(this, seconds);
  }
}
