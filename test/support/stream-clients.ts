/** Clients of event streams without sockets: the frames that each gets, as the fields of its events. */
import type { Socket } from 'node:net';
import { CancelToken } from '../../src/ledger/stop.ts';
import type { EventSink, StreamClient } from '../../src/proxy/reads/push.ts';

/** A client of an open endpoint, or of a plan, that reads at once. */
export class StreamTestClient implements StreamClient, EventSink {
  readonly headers = {};
  readonly socket = {} as Socket;
  readonly client: string;
  readonly admitted: StreamClient['admitted'];
  readonly route = 'resource';
  readonly signal = new CancelToken();
  readonly sink: EventSink = this;
  isOpen = true;
  unread = 0;
  /** As sources have counted. */
  events = 0;
  /** Bytes so far. */
  readonly frames: Buffer[] = [];

  constructor(client = 'client', admitted?: StreamClient['admitted']) {
    this.client = client;
    this.admitted = admitted;
  }

  send(frames: Buffer, events: number): boolean {
    if (!this.isOpen) return false;
    this.frames.push(frames);
    this.events += events;
    return true;
  }

  end(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.onEnd();
  }

  onEnd = (): void => this.signal.abort(new Error('the stream has ended'));

  /** The events since the last call, such as `change 7 {"a":1}`; `-` stands for an absent id. */
  take(): readonly string[] {
    const text = Buffer.concat(this.frames.splice(0)).toString();
    return text
      .split('\n\n')
      .slice(0, -1)
      .map((frame) => {
        const fields = Object.fromEntries(frame.split('\n').map((line) => line.split(/: (.*)/s)));
        return `${fields.event} ${fields.id ?? '-'} ${fields.data}`;
      });
  }
}
