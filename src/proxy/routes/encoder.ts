/**
 * `POST /transactions/encode_submission`: signing messages, encoded from the module's ABI and compared with nodes. In
 * doubt a node receives the request, byte for byte (protocol 5.9).
 */
import type { Registry } from 'prom-client';
import { type EncodeOutcome, encodeSubmission, forwardReasons } from '../../encode/index.ts';
import { bodyTurns, GatewayError } from '../../ledger/index.ts';
import { combinations, Counter } from '../../metrics/index.ts';
import { answerForm, type Exchange } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import { findText, turnlessBytes } from './canonical-body.ts';
import { ModuleSource } from './module-source.ts';
import type { PassThrough } from './pass-through.ts';
import type { Match } from './router.ts';
import { type ProofContext, StandingProof } from './standing-proof.ts';

/** Reasons why a node encodes: those of the encoder, and those found before it runs. */
const nodeReasons = [
  ...forwardReasons,
  ...(['bcs accept', 'encoded body', 'large body', 'module unavailable', 'distrusted function'] as const),
  'chain unknown',
] as const;
type NodeReason = (typeof nodeReasons)[number];

export interface EncoderContext extends ProofContext {
  readonly reads: Pick<Reads, 'reader'>;
  readonly settings: { readonly encode: { readonly enabled: boolean; readonly share: number } };
}

type Forward = { readonly kind: 'forward'; readonly reason: NodeReason };

/** In bytes; a node gets a larger body as it is. Plain text is cheap, such as the hex of a package: some 2 ms at worst. */
const largestEncoded = 128 * 1024;

/** Answers requests for signing messages, itself or through a node. */
export class Encoder {
  readonly proof: StandingProof;
  readonly #context: EncoderContext;
  readonly #modules: ModuleSource;
  readonly #metrics: ReturnType<typeof createEncodeMetrics>;
  readonly #passThrough: PassThrough;

  constructor(context: EncoderContext, passThrough: PassThrough) {
    this.#context = context;
    this.#modules = new ModuleSource(context.reads.reader, context.now);
    this.#metrics = createEncodeMetrics(context.registry);
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
    this.#metrics.local();
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
      this.#metrics.forwarded(reasonOf(outcome) ?? 'refused locally');
    } catch (error) {
      const isNodeless = error instanceof GatewayError && error.fault === 'unavailable' && !exchange.signal.aborted;
      if (outcome.kind !== 'refused' || !isNodeless || exchange.response.headersSent) throw error;
      this.#metrics.refused();
      throw new GatewayError(outcome.code === 'invalid_input' ? 'invalidInput' : 'malformed', outcome.message, {
        cause: error,
      });
    }
  }
}

function reasonOf(outcome: EncodeOutcome | Forward): NodeReason | undefined {
  if (outcome.kind === 'encoded') return undefined;
  return outcome.kind === 'forward' ? outcome.reason : 'refused locally';
}

const forward = (reason: NodeReason): Forward => ({ kind: 'forward', reason });

/** Registers the family of requests for signing messages. */
export function createEncodeMetrics(registry: Registry) {
  const requests = new Counter(registry, {
    name: 'ledgergate_encode_requests_total',
    help: 'Requests for a signing message: local (encoded here), forwarded (an upstream encoded, and why), refused (here, since no upstream could be asked).',
    labels: { outcome: ['local', 'forwarded', 'refused'], reason: ['', 'no node', ...nodeReasons] },
    known: () => [
      { outcome: 'local', reason: '' },
      { outcome: 'refused', reason: 'no node' },
      ...combinations({ outcome: ['forwarded'], reason: nodeReasons }),
    ],
  });
  const local = requests.of({ outcome: 'local', reason: '' });
  return {
    local: () => local.inc(),
    forwarded: (reason: NodeReason) => requests.inc({ outcome: 'forwarded', reason }),
    refused: () => requests.inc({ outcome: 'refused', reason: 'no node' }),
  };
}
