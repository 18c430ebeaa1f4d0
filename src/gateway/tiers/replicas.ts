/** Reports of the processes that share Redis, for the status pages of all replicas: a hash with a field for each. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RedisLink } from '../../cache/index.ts';
import {
  hasEnded,
  isFresh,
  parseReplicaReport,
  type ProcessStatus,
  type ReplicaReport,
  replicaReportOf,
} from '../../proxy/operations/index.ts';

const intervalMs = 5_000;
/** The hash is deleted this long after the last report. */
const keptMs = 60_000;
const mostReports = 1_000;
/** A status page does not wait longer for a slow Redis. */
const longestReadMs = 200;

/** Publishes this process's report, and reads those of all replicas. Fails open: without Redis there are none. */
export class Replicas {
  readonly #link: RedisLink;
  readonly #key: string;
  readonly #status: () => ProcessStatus;
  /** One field for each process: names of replicas may be equal. */
  readonly #field = randomUUID();
  #name = hostname();
  #timer: NodeJS.Timeout | undefined;

  constructor(link: RedisLink, prefix: string, status: () => ProcessStatus) {
    this.#link = link;
    this.#key = `${prefix}:replicas`;
    this.#status = status;
  }

  /** Begins to publish; `port`: that of clients, which distinguishes gateways of one machine. */
  start(port: number): void {
    this.#name = `${hostname()}:${port}`;
    this.#timer = setInterval(() => void this.#publish(), intervalMs).unref();
    void this.#publish();
  }

  /** The newest reports of gateways of this chain, this process's own included; `undefined` without an answer in time. */
  async read(chainId: number | undefined): Promise<readonly ReplicaReport[] | undefined> {
    const texts = await Promise.race([this.#texts(), sleep(longestReadMs, undefined, { ref: false })]);
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
    void this.#remove(ended);
    return fresh;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#remove([this.#field]);
  }

  async #publish(): Promise<void> {
    const text = JSON.stringify(replicaReportOf(this.#status(), this.#name, Date.now()));
    await this.#link.write(this.#key, (client) => client.hset(this.#key, this.#field, text));
    await this.#link.write(this.#key, (client) => client.pexpire(this.#key, keptMs));
  }

  async #texts(): Promise<Readonly<Record<string, string>> | undefined> {
    const count = await this.#link.read(this.#key, (client) => client.hlen(this.#key));
    if (!('value' in count) || count.value > mostReports) return undefined;
    const found = await this.#link.read(this.#key, (client) => client.hgetall(this.#key));
    return 'value' in found ? found.value : undefined;
  }

  async #remove(fields: readonly string[]): Promise<void> {
    if (fields.length > 0) await this.#link.write(this.#key, (client) => client.hdel(this.#key, ...fields));
  }
}
