/** Publishes this process's report to the replicas that share Redis, and reads theirs. */
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ReplicaBoard } from '../../cache/redis/replica-board.ts';
import type { ProcessStatus } from '../../proxy/operations/status/facts.ts';
import {
  hasEnded,
  isFresh,
  parseReplicaReport,
  replicaReportOf,
  type ReplicaReport,
} from '../../proxy/operations/status/replicas.ts';

const intervalMs = 5_000;
/** A status page does not wait longer for a slow Redis. */
const longestReadMs = 200;

/** The reports of all replicas. Fails open: without Redis there are none. */
export class Replicas {
  readonly #board: ReplicaBoard;
  readonly #status: () => ProcessStatus;
  #name = hostname();
  #timer: NodeJS.Timeout | undefined;

  constructor(board: ReplicaBoard, status: () => ProcessStatus) {
    this.#board = board;
    this.#status = status;
  }

  /** Begins to publish; `port`: that of clients, which distinguishes gateways of one machine. */
  start(port: number): void {
    this.#name = `${hostname()}:${port}`;
    this.#timer = setInterval(() => void this.#publish(), intervalMs);
    this.#timer.unref();
    void this.#publish();
  }

  /**
   * The newest reports of gateways of this chain, this process's own among them; `undefined` while Redis gives no answer
   * in time.
   */
  async read(chainId: number | undefined): Promise<readonly ReplicaReport[] | undefined> {
    const texts = await Promise.race([this.#board.read(), sleep(longestReadMs, undefined, { ref: false })]);
    if (texts === undefined) return undefined;
    const nowMs = Date.now();
    const fresh: ReplicaReport[] = [];
    const ended: string[] = [];
    for (const [field, text] of Object.entries(texts)) {
      const report = parseReplicaReport(text);
      // A report of another version of the gateway is not shown, and left alone.
      if (report === undefined) continue;
      if (hasEnded(report, nowMs)) ended.push(field);
      else if (isFresh(report, nowMs) && report.chainId === chainId) fresh.push(report);
    }
    void this.#board.remove(ended);
    return fresh;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#board.remove();
  }

  #publish(): Promise<void> {
    return this.#board.publish(JSON.stringify(replicaReportOf(this.#status(), this.#name, Date.now())));
  }
}
