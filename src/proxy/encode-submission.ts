/**
 * `POST /transactions/encode_submission`: the bytes a person signs, built here from the module's ABI and compared with
 * nodes all along. What is not certainly ours goes to a node, byte for byte (protocol 5.9).
 */
import type { EncodeMetrics } from '../metrics/encode-metrics.ts';
import { encodeSubmission } from '../encode/encode-submission.ts';
import type { EncodeOutcome, ForwardReason } from '../encode/outcome.ts';
import { compareWithNode, type ShadowProof } from '../encode/shadow.ts';
import { GatewayError } from '../ledger/errors.ts';
import type { NodeAnswer } from '../upstream/exchange.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Sender } from '../upstream/sender.ts';
import type { Exchange } from './exchange.ts';
import type { ModuleSource } from './module-source.ts';
import { answerForm } from './negotiate.ts';
import type { PassThrough } from './pass-through.ts';
import type { Replier } from './reply.ts';

export interface EncoderParts {
  readonly fleet: Fleet;
  readonly sender: Sender;
  readonly replier: Replier;
  readonly passThrough: PassThrough;
  readonly modules: ModuleSource;
  readonly proof: ShadowProof;
  readonly metrics: EncodeMetrics;
  readonly signingDomain: string;
  /** Called once per mismatch, with both byte strings. */
  readonly onMismatch: (functionId: string, local: string, node: string) => void;
}

/** Why a node was asked, beside the encoder's own reasons. */
type Reason =
  ForwardReason | 'bcs accept' | 'encoded body' | 'module unavailable' | 'distrusted function' | 'chain unknown';

type Forward = { readonly kind: 'forward'; readonly reason: Reason };

/** Comparisons under way at once: a slow node must not make them pile up. */
const maxChecks = 32;
const checkTimeoutMs = 10_000;

export class Encoder {
  readonly #parts: EncoderParts;
  #checks = 0;

  constructor(parts: EncoderParts) {
    this.#parts = parts;
  }

  async serve(exchange: Exchange, body: Buffer): Promise<void> {
    const { metrics, proof } = this.#parts;
    requireJson(exchange.request.headers['content-type']);
    const outcome = await this.#encode(exchange, body);
    if (outcome.kind !== 'encoded') return this.#handOn(exchange, body, outcome);
    const { hex, signature } = outcome;
    const functionId = outcome.functionId ?? 'no function';
    if (!proof.isTrusted(functionId)) return this.#handOn(exchange, body, forward('distrusted function'));
    metrics.local();
    const head = ['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store'];
    this.#parts.replier.write(exchange, 200, head, Buffer.from(`"${hex}"`, 'latin1'));
    if (proof.shouldCheck(functionId, signature)) this.#check({ functionId, signature, hex, body });
    return undefined;
  }

  async #encode(exchange: Exchange, body: Buffer): Promise<EncodeOutcome | Forward> {
    const { fleet, modules, signingDomain } = this.#parts;
    const { chainId } = fleet;
    if (answerForm(exchange.request.headers.accept) === 'bcs') return forward('bcs accept');
    if (exchange.request.headers['content-encoding'] !== undefined) return forward('encoded body');
    const text = decode(body);
    if (text === undefined) return { kind: 'refused', code: 'web_framework_error', message: 'the body is not UTF-8' };
    if (chainId === undefined) return forward('chain unknown');
    try {
      return await encodeSubmission(text, { chainId, signingDomain, loadModule: modules.load });
    } catch (error) {
      if (error instanceof GatewayError) return forward('module unavailable');
      throw error;
    }
  }

  /** A node answers, in the words clients know; a certain refusal is answered here when no node can be asked. */
  async #handOn(
    exchange: Exchange,
    body: Buffer,
    outcome: Forward | Extract<EncodeOutcome, { kind: 'refused' | 'forward' }>,
  ): Promise<void> {
    const { metrics, passThrough } = this.#parts;
    try {
      await passThrough.serve(exchange, body);
      metrics.forwarded(outcome.kind === 'forward' ? outcome.reason : 'refused locally');
    } catch (error) {
      if (outcome.kind !== 'refused' || !(error instanceof GatewayError) || error.fault !== 'unavailable') throw error;
      metrics.refused();
      throw new GatewayError(outcome.code === 'invalid_input' ? 'invalidInput' : 'malformed', outcome.message, {
        cause: error,
      });
    }
  }

  /** Asks a node for the same bytes, behind the client's back. */
  #check(local: { functionId: string; signature: string; hex: string; body: Buffer }): void {
    const { metrics } = this.#parts;
    if (this.#checks >= maxChecks) {
      metrics.checked('skipped');
      return;
    }
    this.#checks += 1;
    this.#askNode(local.body)
      .then((answer) => this.#judge(local, answer))
      // No node answered: nothing is proven, and the next request of this function asks again.
      .catch(() => metrics.checked('inconclusive'))
      .finally(() => (this.#checks -= 1));
  }

  #askNode(body: Buffer): Promise<NodeAnswer> {
    const wire = {
      method: 'POST',
      path: '/transactions/encode_submission',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body,
    } as const;
    const request = { wire, need: { kind: 'head' }, isIdempotent: true } as const;
    return this.#parts.sender.whole(request, AbortSignal.timeout(checkTimeoutMs));
  }

  #judge(
    { functionId, signature, hex }: { functionId: string; signature: string; hex: string },
    answer: NodeAnswer,
  ): void {
    const { proof, metrics, onMismatch } = this.#parts;
    const text = answer.body.toString('latin1');
    const comparison = compareWithNode(hex, answer.status, text);
    metrics.checked(comparison);
    if (comparison === 'equal') proof.prove(functionId, signature);
    if (comparison !== 'mismatch') return;
    proof.distrust(functionId);
    onMismatch(functionId, hex, text);
  }
}

const forward = (reason: Reason): Forward => ({ kind: 'forward', reason });

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(body: Buffer): string | undefined {
  try {
    return utf8.decode(body);
  } catch {
    return undefined;
  }
}

/** Here nodes compare media types, parameters allowed (protocol 2.4). */
function requireJson(contentType: string | undefined): void {
  if (contentType === undefined) {
    throw new GatewayError('unsupportedMediaType', 'the client request does not include the `Content-Type` header');
  }
  if (!/^\s*application\/(?:[\w.!#$&^+-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    throw new GatewayError('unsupportedMediaType', 'the `Content-Type` requested by the client is not supported');
  }
}
