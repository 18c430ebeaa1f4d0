/** A request whose body is arriving, in one buffer. */
import type { BodyReservation } from '../body-pool.ts';
import { uncountedBytes } from '../request-body.ts';
import { ownCopy } from '../target.ts';
import type { PlainHead } from './request-head.ts';

/** Collects head and body. A list of pieces would take a hundred bytes for each byte that arrives alone. */
export class PartialRequest {
  readonly head: PlainHead;
  /** In ms of `performance.now()`. */
  readonly sinceMs = performance.now();
  readonly #length: number;
  #filled = 0;
  #bytes: Buffer | undefined;
  #reservation: BodyReservation | undefined;

  /** `length`: of head and body, in bytes. */
  constructor(head: PlainHead, length: number) {
    // A slice would keep the text of the whole chunk in memory.
    this.head = { ...head, target: ownCopy(head.target) };
    this.#length = length;
    this.#bytes = Buffer.allocUnsafeSlow(Math.min(length, uncountedBytes));
  }

  get isWhole(): boolean {
    return this.#filled === this.#length;
  }

  /** The request has its answer, and the rest of its body is dropped. */
  get isRefused(): boolean {
    return this.#bytes === undefined;
  }

  /** The bytes so far. */
  get received(): Buffer {
    return this.#bytes?.subarray(0, this.#filled) ?? nothing;
  }

  /** Memory of the buffer, once it is large enough to count. */
  get reservation(): BodyReservation | undefined {
    return this.#reservation;
  }

  /** Whether the next `count` bytes need a buffer for the whole request, which `reserve` makes. */
  needsMemoryFor(count: number): boolean {
    return this.#bytes !== undefined && this.#bytes.length < Math.min(this.#filled + count, this.#length);
  }

  /** Makes the buffer for the whole request, under `reservation`, which the pool may end at once: then `refuse`. */
  reserve(reservation: BodyReservation): void {
    const { received } = this;
    this.#bytes = Buffer.allocUnsafeSlow(this.#length);
    received.copy(this.#bytes);
    this.#reservation = reservation;
    reservation.noteArrival(received.length);
    reservation.add(this.#length);
  }

  /** Takes bytes from the front of `chunk`, and returns their number. */
  take(chunk: Buffer): number {
    const taken = Math.min(chunk.length, this.#length - this.#filled);
    this.#bytes?.set(chunk.subarray(0, taken), this.#filled);
    this.#filled += taken;
    this.#reservation?.noteArrival(taken);
    return taken;
  }

  /** Drops the bytes, and those to come. */
  refuse(): void {
    this.#bytes = undefined;
    this.#reservation = undefined;
  }

  /** Frees the reservation: the request ends without an answer from here. */
  close(): void {
    this.#reservation?.close();
  }
}

const nothing = Buffer.alloc(0);
