/** The open event streams of one process: their bounds, comments, rights and drain. */
import type { Access } from '../../access/index.ts';
import { GatewayError } from '../../ledger/index.ts';
import type { EventSink, StreamKind } from '../reads/index.ts';
import type { IncomingExchange, Incoming, Outgoing } from './message.ts';

/** Opens streams within their bounds, and ends them. */
export class EventStreams {
  /** `settings`: the live bound of this process. */
  // oxlint-disable-next-line no-useless-constructor -- the parts come with issue 37
  constructor(_settings: { readonly max: number }, _access: Access | undefined) {}

  /** The stream behind a head that the caller writes. Throws, or rejects with, `GatewayError` 429 or 503. */
  open(_received: IncomingExchange<Incoming, Outgoing>, _kind: StreamKind): EventSink | Promise<EventSink> {
    throw new GatewayError('unavailable', 'too many event streams are open; try again', { reason: 'streams' });
  }

  /** Open streams of a kind. */
  count(_kind: StreamKind): number {
    return 0;
  }

  /** Ends each stream at its next event, idle ones within 5 s; new ones are refused. */
  drain(): void {}

  close(): void {}
}
