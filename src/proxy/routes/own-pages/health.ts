/** `GET {basePath}/-/health`: whether the endpoint serves, for its clients. It reports no node, neither name nor number. */
import type { Access } from '../../../access/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import type { Exchange } from '../../http/index.ts';

/** The parts of a process that its health depends on. */
interface HealthSource {
  readonly fleet: Pick<Fleet, 'isReady' | 'lost' | 'head' | 'chainId' | 'ledger'>;
  /** Whether reads that memory does not hold are refused for want of time. */
  readonly isOverloaded: () => boolean;
  readonly access: Pick<Access, 'isRefusing'> | undefined;
}

/** The answer of a moment. */
interface HealthAnswer {
  readonly status: 200 | 503;
  readonly body: string;
  /** `performance.now()` from which on it is made anew. */
  readonly untilMs: number;
}

/** Clients get the same answer for this long: an attack costs ten looks at the fleet a second. */
const sharedMs = 100;

/** Answers clients' requests for the health of this process. */
export class Health {
  readonly #source: HealthSource;
  #answer: HealthAnswer | undefined;

  constructor(source: HealthSource) {
    this.#source = source;
  }

  /** Answers also while the process is overloaded: the answer costs less than its refusal. */
  serve(exchange: Exchange): void {
    const nowMs = performance.now();
    let answer = this.#answer;
    if (answer === undefined || nowMs >= answer.untilMs) this.#answer = answer = this.#look(nowMs);
    exchange.answerOwn(answer.status, 'application/json; charset=utf-8', answer.body);
  }

  #look(nowMs: number): HealthAnswer {
    const { fleet, isOverloaded, access } = this.#source;
    const { isReady, head, chainId, ledger } = fleet;
    const reportedAtMs = ledger.source?.window.observedAtMs;
    const isWhole = isReady && fleet.lost === undefined && !isOverloaded() && access?.isRefusing !== true;
    const facts = {
      status: !isReady ? 'unavailable' : isWhole ? 'serving' : 'degraded',
      chain_id: chainId,
      ledger_version: head?.version.toString(),
      ledger_timestamp: head?.timestampUsec.toString(),
      age_ms: reportedAtMs === undefined ? undefined : Math.max(0, Math.round(nowMs - reportedAtMs)),
    };
    return { status: isReady ? 200 : 503, body: `${JSON.stringify(facts)}\n`, untilMs: nowMs + sharedMs };
  }
}
