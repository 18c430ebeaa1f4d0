/**
 * Bounds the bytes of answers that clients have not taken. A client that reads slowly, or nothing, would otherwise keep
 * its answer in memory for as long as its connection lives. Such answers share one budget with the answers that are
 * being read from nodes: beyond it the connection that has stood still longest ends, and where none stands still, the
 * next answer is refused with 503.
 */
import { GatewayError } from '../../ledger/errors.ts';
import type { ByteBudget } from '../../upstream/byte-budget.ts';
import { answerDespiteHalfClose } from './server/connection-state.ts';
import type { Outgoing } from './message.ts';

/** Longer bodies are counted before they are sent, and sent by pieces of this length, in bytes. */
export const pieceBytes = 64 * 1024;
/** A connection that has taken something within this time is not ended for want of memory, in milliseconds. */
const stallMs = 1_000;

/** Anything that waits for its client and can be ended. */
interface Recipient {
  destroy(): unknown;
  /** Null of a response of Node's that waits behind another one on its connection. */
  readonly socket?: unknown;
  readonly req?: { readonly socket: { destroy(): unknown } };
}

/** A connection between two requests of the fast path. */
interface RecipientSocket extends Recipient {
  readonly writableLength: number;
  /** False once the connection has been ended or destroyed. */
  readonly writable: boolean;
  write(text: string, onSent: () => void): unknown;
}

/** Counts answers that were refused, and connections that were ended, for want of memory. */
export interface UnsentMetrics {
  refused(): void;
  ended(): void;
}

/** `sinceMs`: when its client took something last, or when it began to wait; in milliseconds. */
interface UnsentEntry {
  sinceMs: number;
  readonly releases: (() => void)[];
}

export class UnsentAnswers {
  readonly #budget: ByteBudget;
  readonly #metrics: UnsentMetrics;
  readonly #now: () => number;
  /** Ordered by `sinceMs`, the oldest first. */
  readonly #waiting = new Map<Recipient, UnsentEntry>();
  /** How many answers each body is sent to: readers of one entry share its bytes. */
  readonly #bodies = new Map<Buffer, { readers: number; readonly release: () => void }>();

  /** Takes over the shortage of `budget`. `now`: monotonic, in milliseconds. */
  constructor(budget: ByteBudget, metrics: UnsentMetrics, now = () => performance.now()) {
    this.#budget = budget;
    this.#metrics = metrics;
    this.#now = now;
    budget.onShort = (bytes) => this.#endStalled(bytes);
  }

  /**
   * Counts `body` until `response` closes; short bodies are not counted. To be called before anything of the answer is
   * written. Throws `GatewayError` 503 where the budget has no room.
   */
  hold(response: Outgoing, body: Buffer): void {
    // The close of a response that is closed already is not reported again.
    if (body.length <= pieceBytes || response.destroyed) return;
    if (!this.#budget.hasRoomFor(pieceBytes + (this.#bodies.has(body) ? 0 : body.length))) {
      this.#metrics.refused();
      throw new GatewayError('unavailable', 'too many large answers are on their way; try again');
    }
    // Looked up now: the connections that were ended for room may have been its readers.
    const shared = this.#bodies.get(body) ?? { readers: 0, release: this.#budget.hold(body.length) };
    shared.readers += 1;
    this.#bodies.set(body, shared);
    this.#wait(response, () => {
      shared.readers -= 1;
      if (shared.readers > 0) return;
      this.#bodies.delete(body);
      shared.release();
    });
    // The piece on its way is a copy where the connection is encrypted.
    this.#wait(response, this.#budget.hold(pieceBytes));
  }

  /** Ends `response` with `body`, by pieces and at its client's pace. The head was written, and the body is held. */
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

  /** Counts what the kernel has not taken of a short answer, `bytes` long, until `response` closes. */
  trackShort(response: Outgoing, bytes: number): void {
    if (response.destroyed) return;
    this.#wait(response, this.#budget.hold(bytes));
    if (this.#budget.left < 0) this.#endStalled(-this.#budget.left);
  }

  /** Counts what the kernel has not taken of the short answers on `socket`, until it has; `least`: bytes they keep alive. */
  trackSocket(socket: RecipientSocket, least: number): void {
    if (this.#waiting.has(socket) || !socket.writable) return;
    const releases = [this.#budget.hold(Math.max(socket.writableLength, least))];
    this.#waiting.set(socket, { sinceMs: this.#now(), releases });
    // Short answers cause no 'drain'. The callback of an empty write comes when the kernel has them, or on the close.
    socket.write('', () => this.#release(socket));
    if (this.#budget.left < 0) this.#endStalled(-this.#budget.left);
  }

  #wait(response: Outgoing, release: () => void): void {
    const known = this.#waiting.get(response);
    if (known !== undefined) {
      known.releases.push(release);
      return;
    }
    this.#waiting.set(response, { sinceMs: this.#now(), releases: [release] });
    response.once('close', () => this.#release(response));
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

  /** Ends connections that stand still, the longest first, until `bytes` are free. */
  #endStalled(bytes: number): void {
    const wanted = this.#budget.left + bytes;
    const untilMs = this.#now() - stallMs;
    for (const [recipient, { sinceMs }] of this.#waiting) {
      if (this.#budget.left >= wanted || sinceMs > untilMs) return;
      this.#metrics.ended();
      this.#release(recipient);
      recipient.destroy();
      // Such a response would keep its body until its turn comes.
      if (recipient.socket === null) recipient.req?.socket.destroy();
    }
  }
}
