/** A client of event streams over a socket of its own, as `EventSource` reads them (HTML, section 9.2.6). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import { until } from './eventually.ts';

/** One event; `id`: the last one that the stream has named. */
export interface StreamEvent {
  readonly event: string;
  readonly id: string;
  readonly data: string;
}

/** The reading end of one stream. */
export class EventReader {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly events: StreamEvent[] = [];
  /** Of the stream, also behind its last event. */
  lastId = '';
  hasEnded = false;
  readonly #response: IncomingMessage;
  #rest = '';

  private constructor(response: IncomingMessage) {
    this.#response = response;
    this.status = response.statusCode ?? 0;
    this.headers = response.headers;
    response.setEncoding('utf8');
    response.on('data', (text: string) => this.#take(text));
    response.on('close', () => (this.hasEnded = true));
    // A reset ends it as well.
    response.on('error', () => undefined);
  }

  /** Opens a stream; `headers` beside `Accept`. Resolves with its head, whatever the status. */
  static async open(url: string, headers: Readonly<Record<string, string>> = {}): Promise<EventReader> {
    const sent = request(url, { agent: false, headers: { accept: 'text/event-stream', ...headers } });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return new EventReader(response);
  }

  /** What is no whole event: the body of another answer. */
  get rest(): string {
    return this.#rest;
  }

  get ids(): readonly string[] {
    return this.events.map(({ id }) => id);
  }

  /** Resolves when so many events are there. */
  async has(count: number): Promise<readonly StreamEvent[]> {
    await until(() => this.events.length >= count || this.hasEnded);
    assert.ok(this.events.length >= count, `the stream ended after ${this.events.length} of ${count} events`);
    return this.events;
  }

  close(): void {
    this.#response.destroy();
  }

  #take(text: string): void {
    const blocks = (this.#rest + text).split('\n\n');
    this.#rest = blocks.pop() ?? '';
    for (const block of blocks) this.#dispatch(block.split('\n'));
  }

  #dispatch(lines: readonly string[]): void {
    let event = 'message';
    const data: string[] = [];
    for (const line of lines) {
      const [, name = '', value = ''] = /^(\w*): ?(.*)$/.exec(line) ?? [];
      if (name === 'id') this.lastId = value;
      if (name === 'event') event = value;
      if (name === 'data') data.push(value);
    }
    if (data.length > 0) this.events.push({ event, id: this.lastId, data: data.join('\n') });
  }
}
