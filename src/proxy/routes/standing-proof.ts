/** The standing proof: after the client's answer a node encodes the same request, and the bytes are compared. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import {
  type DistrustedFunctions,
  encodeSubmission,
  type LoadModule,
  NodeEncoding,
  ShadowProof,
} from '../../encode/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import { Counter, Gauge, type Journal } from '../../metrics/index.ts';
import type { Fleet, NodeAnswer } from '../../upstream/index.ts';
import type { ModuleSource } from './module-source.ts';

/** A request that the gateway encoded and answered. */
interface LocalEncoding {
  readonly functionId: string;
  /** The function's parameters in its ABI. */
  readonly signature: string;
  /** `0x` and hex, as the client received it. */
  readonly hex: string;
  /** The fleet's head when it was encoded. */
  readonly version: bigint | undefined;
  readonly body: Buffer;
  /** Fair-queueing key of the client: its check waits in the same turn. */
  readonly client: string;
}

/** The proof's surroundings. */
export interface ProofContext {
  readonly fleet: Fleet;
  readonly registry: Registry;
  readonly journal: Journal;
  /** Live settings of the config. */
  readonly settings: { readonly encode: { readonly share: number } };
  /** Ahead of each signing message. */
  readonly signingDomain: string;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Functions that other workers leave to nodes. */
  readonly distrusted: DistrustedFunctions['all'] | undefined;
  /** Publishes that nodes encode a function from now on. */
  readonly onDistrusted: (functionId: string) => void;
}

/** Bounds of checks in flight, so that a slow node cannot make them or their bodies pile up. */
const maxChecks = 32;
const maxBytes = 32 * 1024 * 1024;
const timeoutMs = 10_000;
const maxLoggedCharacters = 1_000;

/** Sends checks to nodes within bounds, and records their results. */
export class StandingProof {
  /** Its decisions. */
  readonly trust: ShadowProof;
  readonly #context: ProofContext;
  readonly #modules: ModuleSource;
  readonly #checked: ReturnType<typeof createProofMetrics>;
  #inFlight = 0;
  #bytes = 0;

  constructor(context: ProofContext, modules: ModuleSource) {
    this.#context = context;
    this.#modules = modules;
    this.trust = new ShadowProof(context.settings.encode, context);
    this.#checked = createProofMetrics(context.registry, () => this.trust.distrusted.size);
  }

  /**
   * Begins a check if the proof calls for one. Never throws; the promise, if any, never rejects. The check holds the
   * request's body until it resolves.
   */
  consider(local: LocalEncoding): Promise<void> | undefined {
    const { functionId, signature } = local;
    if (!this.trust.shouldCheck(functionId, signature)) return undefined;
    const size = local.body.length + local.hex.length;
    if (this.#inFlight >= maxChecks || this.#bytes + size > maxBytes) {
      this.#checked('skipped');
      return undefined;
    }
    this.#inFlight += 1;
    this.#bytes += size;
    return this.#askNode(local)
      .then(
        (answer) => this.#record(local, answer),
        // Without an answer nothing is proven: a later request of the function is checked.
        (error: unknown) => {
          // The client's own queue is full: a request of another client may be checked.
          if (error instanceof GatewayError && error.client !== undefined) this.trust.giveBack(functionId, signature);
          this.#checked('inconclusive');
        },
      )
      .finally(() => {
        this.#inFlight -= 1;
        this.#bytes -= size;
      });
  }

  #askNode({ body, client }: LocalEncoding): Promise<NodeAnswer> {
    const wire = {
      method: 'POST',
      path: '/transactions/encode_submission',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
    } as const;
    const request = { wire, need: { kind: 'head' }, promised: 'json', isIdempotent: true, client } as const;
    return this.#context.fleet.sender.whole(request, AbortSignal.timeout(timeoutMs));
  }

  async #record(local: LocalEncoding, answer: NodeAnswer): Promise<void> {
    const { journal, onDistrusted } = this.#context;
    const { functionId, signature, hex } = local;
    const { status, isFramed, info } = answer;
    const node = answer.body.toString();
    const upstream = answer.upstream.name;
    const encoding = new NodeEncoding({ status, isFramed, body: node, version: info?.version });
    const difference = encoding.compareWith(local);
    const comparison = difference === 'mismatch' ? await this.#explainMismatch(local, encoding) : difference;
    if (comparison === 'equal') this.trust.prove(functionId, signature);
    this.#checked(comparison === 'unread' ? 'mismatch' : comparison);
    if (comparison === 'mismatch') {
      onDistrusted(functionId);
      const why = 'a node encodes this function differently: nodes encode it from now on';
      journal.record('encode mismatch', { functionId, local: hex, node, upstream }, why);
    } else if (comparison === 'unread') {
      // Without the bytes: clients can cause any number of these.
      const refusal = { functionId, node: node.slice(0, maxLoggedCharacters), upstream };
      journal.record('encode unread', refusal, 'a node cannot read a request that was encoded here');
    }
  }

  /** Nodes encode the function while its mismatch is examined; for good unless an upgrade explains it. */
  async #explainMismatch(local: LocalEncoding, answer: NodeEncoding): Promise<'mismatch' | 'inconclusive'> {
    const { functionId } = local;
    this.trust.suspend(functionId);
    try {
      if (await this.#isOfUpgrade(local, answer)) return 'inconclusive';
      // Before `resume`: in between, another request would receive the doubtful bytes.
      this.trust.distrust(functionId);
      return 'mismatch';
    } finally {
      this.trust.resume(functionId);
    }
  }

  /**
   * Whether the node used an ABI of another version. The request is encoded with modules at the answer's version, and at
   * head, because a node may read its ABI a moment after its version. A failure, or `timeoutMs`, means no.
   */
  async #isOfUpgrade({ client, body }: LocalEncoding, answer: NodeEncoding): Promise<boolean> {
    const { fleet, signingDomain } = this.#context;
    const { chainId } = fleet;
    if (answer.version === undefined || chainId === undefined) return false;
    const now = this.#modules.loaderOfRequest(client);
    const atHead: LoadModule = (address, name) => now(address, name, { fresh: true });
    const deadline = sleep(timeoutMs, undefined, { ref: false });
    let isLate = false;
    const late = async (): Promise<never> => {
      await deadline;
      isLate = true;
      throw new Error('the modules did not arrive in time');
    };
    for (const load of [this.#modules.loaderAt(answer.version, client), atHead]) {
      // A read in flight goes on, because others may share it.
      const loadModule: LoadModule = (address, name) => (isLate ? late() : Promise.race([load(address, name), late()]));
      const encoded = await encodeSubmission(body.toString(), { chainId, signingDomain, loadModule }).catch(
        () => undefined,
      );
      if (encoded !== undefined && answer.isOfUpgrade(encoded)) return true;
    }
    return false;
  }
}

/** Registers the families of the proof, and returns the counter of checks; `readDistrusted` is called at each scrape. */
export function createProofMetrics(registry: Registry, readDistrusted: () => number) {
  const checks = new Counter(registry, {
    name: 'ledgergate_encode_checks_total',
    help: 'Local encodings compared with an upstream in the background, by result; mismatch must stay 0.',
    labels: { result: ['equal', 'mismatch', 'inconclusive', 'skipped'] },
  });
  new Gauge(registry, {
    name: 'ledgergate_encode_distrusted_functions',
    help: 'Functions left to upstreams because one of them once encoded them differently; an account with more than 100 counts once, and 1000 at most are counted.',
    join: 'max',
    read: readDistrusted,
  });
  return checks.by('result');
}
