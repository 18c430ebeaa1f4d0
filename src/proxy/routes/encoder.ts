/**
 * `POST /transactions/encode_submission`: signing messages, encoded from the module's ABI and compared with nodes. In
 * doubt a node receives the request, byte for byte (protocol 5.9).
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Registry } from 'prom-client';
import {
  type DistrustedFunctions,
  type EncodeOutcome,
  encodeSubmission,
  forwardReasons,
  type LoadModule,
  NodeEncoding,
  ShadowProof,
} from '../../encode/index.ts';
import { bodyTurns, GatewayError } from '../../ledger/index.ts';
import { combinations, type Count, Counter, Gauge, type Journal } from '../../metrics/index.ts';
import type { Fleet, NodeAnswer } from '../../upstream/index.ts';
import { answerForm, type Exchange } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import { findText, turnlessBytes } from './canonical-body.ts';
import { ModuleSource } from './module-source.ts';
import type { PassThrough } from './pass-through.ts';
import type { Match } from './router.ts';

/** Reasons why a node encodes: those of the encoder, and those found before it runs. */
const nodeReasons = [
  ...forwardReasons,
  ...(['bcs accept', 'encoded body', 'large body', 'module unavailable', 'distrusted function'] as const),
  'chain unknown',
] as const;
type NodeReason = (typeof nodeReasons)[number];

/** The encoder's surroundings. */
export interface EncoderContext {
  readonly fleet: Fleet;
  readonly reads: Pick<Reads, 'reader'>;
  readonly registry: Registry;
  readonly journal: Journal;
  /** Live settings of the config. */
  readonly settings: { readonly encode: { readonly enabled: boolean; readonly share: number } };
  /** Ahead of each signing message. */
  readonly signingDomain: string;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Functions that other workers leave to nodes. */
  readonly distrusted: DistrustedFunctions['all'] | undefined;
  /** Publishes that nodes encode a function from now on. */
  readonly onDistrusted: (functionId: string) => void;
}

type Forward = { readonly kind: 'forward'; readonly reason: NodeReason };

/** In bytes; a node gets a larger body as it is. Plain text is cheap, such as the hex of a package: some 2 ms at worst. */
const largestEncoded = 128 * 1024;

/** Answers requests for signing messages, itself or through a node. */
export class Encoder {
  readonly proof: StandingProof;
  readonly #context: EncoderContext;
  readonly #modules: ModuleSource;
  readonly #requests: ReturnType<typeof createEncodeMetrics>;
  /** Found once: each message that is encoded here counts. */
  readonly #local: Count;
  readonly #passThrough: PassThrough;

  constructor(context: EncoderContext, passThrough: PassThrough) {
    this.#context = context;
    this.#modules = new ModuleSource(context.reads.reader, context.now);
    this.#requests = createEncodeMetrics(context.registry);
    this.#local = this.#requests.of({ outcome: 'local', reason: '' });
    this.proof = new StandingProof(context, this.#modules);
    this.#passThrough = passThrough;
  }

  /** Whether the config leaves requests to it; otherwise nodes encode. */
  get isEnabled(): boolean {
    return this.#context.settings.encode.enabled;
  }

  /** Answers a request whose head has passed `requireJson`. Rejects with `GatewayError`. */
  async serve(exchange: Exchange, match: Match, body: Buffer): Promise<void> {
    const span = exchange.span?.begin('encode');
    const outcome = await this.#encode(exchange, body);
    const result = outcome.kind === 'encoded' ? 'local' : 'forwarded';
    span?.note({ 'ledgergate.encode.result': result, 'ledgergate.encode.reason': reasonOf(outcome) });
    span?.end();
    if (outcome.kind !== 'encoded') return this.#passOn(exchange, match, body, outcome);
    const { hex, signature, functionId = 'no function' } = outcome;
    // No await between this check and the answer: bytes that become doubtful in between would be sent.
    if (!this.proof.trust.isTrusted(functionId))
      return this.#passOn(exchange, match, body, forward('distrusted function'));
    this.#local.inc();
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store'];
    exchange.reservation?.add(hex.length);
    exchange.answer(200, head, `"${hex}"`);
    const version = this.#context.fleet.head?.version;
    const check = this.proof.consider({ functionId, signature, hex, body, version, client: exchange.client });
    if (check !== undefined) exchange.reservation?.holdFor(check);
    return undefined;
  }

  async #encode(exchange: Exchange, body: Buffer): Promise<EncodeOutcome | Forward> {
    const { fleet, signingDomain } = this.#context;
    const { chainId, generation } = fleet;
    const { accept, 'content-encoding': coding } = exchange.request.headers;
    if (answerForm(accept) === 'bcs') return forward('bcs accept');
    if (coding !== undefined) return forward('encoded body');
    if (body.length > largestEncoded) return forward('large body');
    const text = findText(body);
    if (text === undefined) return { kind: 'refused', code: 'web_framework_error', message: 'the body is not UTF-8' };
    if (chainId === undefined) return forward('chain unknown');
    try {
      const outcome = await encodeSubmission(text, {
        chainId,
        signingDomain,
        loadModule: this.#modules.loaderOfRequest(exchange.client),
        run: body.length > turnlessBytes ? (work) => bodyTurns.run(exchange.client, work) : undefined,
      });
      // Otherwise the modules may be of two ledgers, and the chain id of an earlier one.
      return generation === fleet.generation ? outcome : forward('chain unknown');
    } catch (error) {
      if (error instanceof GatewayError) return forward('module unavailable');
      throw error;
    }
  }

  /** A node answers in its own error texts. Without a node, the encoder's own certain refusal is the answer. */
  async #passOn(
    exchange: Exchange,
    match: Match,
    body: Buffer,
    outcome: Forward | Extract<EncodeOutcome, { kind: 'refused' | 'forward' }>,
  ): Promise<void> {
    try {
      await this.#passThrough.serve(exchange, match, body);
      this.#requests.inc({ outcome: 'forwarded', reason: reasonOf(outcome) ?? 'refused locally' });
    } catch (error) {
      const isNodeless = error instanceof GatewayError && error.fault === 'unavailable' && !exchange.signal.aborted;
      if (outcome.kind !== 'refused' || !isNodeless || exchange.response.headersSent) throw error;
      this.#requests.inc({ outcome: 'refused', reason: 'no node' });
      throw new GatewayError(outcome.code === 'invalid_input' ? 'invalidInput' : 'malformed', outcome.message, {
        cause: error,
      });
    }
  }
}

/** Reason for asking a node; nodes answer refusals as well. */
function reasonOf(outcome: EncodeOutcome | Forward): NodeReason | undefined {
  if (outcome.kind === 'encoded') return undefined;
  return outcome.kind === 'forward' ? outcome.reason : 'refused locally';
}

const forward = (reason: NodeReason): Forward => ({ kind: 'forward', reason });

/** Registers the family of requests for signing messages. Refused ones got an error, as no node could be asked. */
export function createEncodeMetrics(registry: Registry) {
  return new Counter(registry, {
    name: 'ledgergate_encode_requests_total',
    help: 'Requests for a signing message: local (encoded here), forwarded (an upstream encoded, and why), refused (here, since no upstream could be asked).',
    labels: { outcome: ['local', 'forwarded', 'refused'], reason: ['', 'no node', ...nodeReasons] },
    known: () => [
      { outcome: 'local', reason: '' },
      { outcome: 'refused', reason: 'no node' },
      ...combinations({ outcome: ['forwarded'], reason: nodeReasons }),
    ],
  });
}

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

/** Bounds of checks in flight, so that a slow node cannot make them or their bodies pile up. */
const maxChecks = 32;
const maxBytes = 32 * 1024 * 1024;
const timeoutMs = 10_000;
const maxLoggedCharacters = 1_000;

/** The standing proof: after the client's answer a node encodes the same request, and the bytes are compared. */
class StandingProof {
  /** Its decisions. */
  readonly trust: ShadowProof;
  readonly #context: EncoderContext;
  readonly #modules: ModuleSource;
  readonly #checked: ReturnType<typeof createProofMetrics>;
  #inFlight = 0;
  #bytes = 0;

  constructor(context: EncoderContext, modules: ModuleSource) {
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
