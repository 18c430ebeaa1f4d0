/** One event stream: the writing end behind the head of an answer that has ended as an exchange. */
import type { EndReason, EventSink, StreamKind } from '../reads/index.ts';
import type { Outgoing } from './message.ts';

/** A stream over one response. */
export class EventStream implements EventSink {
  readonly kind: StreamKind;
  onEnd = (): void => {};
  readonly #response: Outgoing;

  constructor(kind: StreamKind, response: Outgoing) {
    this.kind = kind;
    this.#response = response;
  }

  get isOpen(): boolean {
    return !this.#response.destroyed;
  }

  get unread(): number {
    return this.#response.writableLength;
  }

  send(_frames: Buffer, _events: number): boolean {
    return false;
  }

  end(_reason: EndReason): void {}
}
