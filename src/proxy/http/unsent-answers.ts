/**
 * Bounds the bytes of answers that clients have not read. A slow or stalled reader would otherwise keep its answer in
 * memory for the life of its connection. Unsent answers share one budget with answers being read from nodes. Beyond it,
 * the connection stalled longest ends; without a stalled one, the next answer is refused with 503.
 */
import type { Socket } from 'node:net';
import { GatewayError } from '../../ledger/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { answerDespiteHalfClose } from './server/connection-state.ts';
import type { Outgoing } from './message.ts';

/** Bytes of a piece; longer bodies are counted, and sent in pieces. */
export const pieceBytes = 64 * 1024;
/** Milliseconds; a connection with progress in this time is not stalled. */
const stallMs = 1_000;

/** A response or connection with unsent bytes. */
interface Recipient {
  destroy(): unknown;
  /** Null for a response of Node's that waits behind another one. */
  readonly socket?: unknown;
  readonly req?: { readonly socket: { destroy(): unknown } };
}

type UnsentResponse = Recipient & Pick<Outgoing, 'destroyed' | 'once'>;

/** Counts answers refused, and connections ended, for lack of memory. */
interface UnsentMetrics {
  refused(): void;
  ended(): void;
}

interface UnsentEntry {
  /** Time of the client's last progress, or of the first wait. */
  sinceMs: number;
  readonly releases: (() => void)[];
}

/** The unsent answers of one process, within its budget. */
export class UnsentAnswers {
  readonly #budget: Fleet['answerBudget'];
  readonly #metrics: UnsentMetrics;
  readonly #now: () => number;
  /** Ordered by `sinceMs`, oldest first. */
  readonly #waiting = new Map<Recipient, UnsentEntry>();
  /** Readers per body: answers of one cache entry share its bytes. */
  readonly #bodies = new Map<Buffer, { readers: number; readonly release: () => void }>();

  /** Sets `budget.onShort`. `now`: monotonic, in milliseconds. */
  constructor(budget: Fleet['answerBudget'], metrics: UnsentMetrics, now = () => performance.now()) {
    this.#budget = budget;
    this.#metrics = metrics;
    this.#now = now;
    budget.onShort = (bytes) => this.#endStalled(bytes);
  }

  /**
   * Counts a long `body` until `response` closes; call it before any write. Throws `GatewayError` 503 without room in
   * the budget.
   */
  hold(response: Outgoing, body: Buffer): void {
    // A closed response emits no further 'close'.
    if (body.length <= pieceBytes || response.destroyed) return;
    if (!this.#budget.hasRoomFor(pieceBytes + (this.#bodies.has(body) ? 0 : body.length))) {
      this.#metrics.refused();
      throw new GatewayError('unavailable', 'too many large answers are on their way; try again', {
        reason: 'large answers',
      });
    }
    // Read after `hasRoomFor`, which may have ended other readers of this body.
    const shared = this.#bodies.get(body) ?? { readers: 0, release: this.#budget.hold(body.length) };
    shared.readers += 1;
    this.#bodies.set(body, shared);
    this.#wait(response, () => {
      shared.readers -= 1;
      if (shared.readers > 0) return;
      this.#bodies.delete(body);
      shared.release();
    });
    // Under TLS, the piece in flight is a copy.
    this.#wait(response, this.#budget.hold(pieceBytes));
  }

  /** Ends `response` with `body`, in pieces and at the client's pace. Call it after `hold` and the head. */
  send(response: Outgoing, body: Buffer): void {
    answerDespiteHalfClose(response);
    let from = 0;
    const sendMore = (): void => {
      this.#noteProgress(response);
      while (from + pieceBytes < body.length) {
        if (response.destroyed) return;
        const isTaken = response.write(body.subarray(from, from + pieceBytes));
        from += pieceBytes;
        if (isTaken) continue;
        response.once('drain', sendMore);
        return;
      }
      response.end(body.subarray(from));
    };
    sendMore();
  }

  /** Counts a short answer of `bytes` that the kernel has not accepted, until `response` closes. */
  trackShort(response: UnsentResponse, bytes: number): void {
    if (response.destroyed) return;
    this.#wait(response, this.#budget.hold(bytes));
    if (this.#budget.left < 0) this.#endStalled(-this.#budget.left);
  }

  /**
   * Counts unsent short answers on `socket` between two requests of the fast path, until the kernel accepts them;
   * `least`: bytes that they keep in memory.
   */
  trackSocket(socket: Socket, least: number): void {
    if (this.#waiting.has(socket) || !socket.writable) return;
    const releases = [this.#budget.hold(Math.max(socket.writableLength, least))];
    this.#waiting.set(socket, { sinceMs: this.#now(), releases });
    // Short answers cause no 'drain'. An empty write calls back once the kernel accepts them, or on close.
    socket.write('', () => this.#release(socket));
    if (this.#budget.left < 0) this.#endStalled(-this.#budget.left);
  }

  #wait(response: UnsentResponse, release: () => void): void {
    const known = this.#waiting.get(response);
    if (known !== undefined) known.releases.push(release);
    else {
      this.#waiting.set(response, { sinceMs: this.#now(), releases: [release] });
      response.once('close', () => this.#release(response));
    }
  }

  #noteProgress(recipient: Recipient): void {
    const known = this.#waiting.get(recipient);
    if (known === undefined) return;
    known.sinceMs = this.#now();
    this.#waiting.delete(recipient);
    this.#waiting.set(recipient, known);
  }

  #release(recipient: Recipient): void {
    const known = this.#waiting.get(recipient);
    this.#waiting.delete(recipient);
    for (const release of known?.releases ?? []) release();
  }

  /** Ends stalled connections, the longest stalled first, until `bytes` are free. */
  #endStalled(bytes: number): void {
    const wanted = this.#budget.left + bytes;
    const untilMs = this.#now() - stallMs;
    for (const [recipient, { sinceMs }] of this.#waiting) {
      if (this.#budget.left >= wanted || sinceMs > untilMs) return;
      this.#metrics.ended();
      this.#release(recipient);
      recipient.destroy();
      // A response behind another one would keep its body until its turn.
      if (recipient.socket === null) recipient.req?.socket.destroy();
    }
  }
}
