/** A client of event streams over a socket of its own, as `EventSource` reads them (HTML, section 9.2.6). */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';
import type { ClientHttp2Session, IncomingHttpHeaders } from 'node:http2';
import { request as requestTls } from 'node:https';
import type { Readable } from 'node:stream';
import { test, type TestContext } from 'node:test';
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
  readonly headers: IncomingHttpHeaders;
  readonly events: StreamEvent[] = [];
  /** Id that the stream has named last, also behind its last event. */
  lastId = '';
  /** All that has come. */
  text = '';
  hasEnded = false;
  /** Resolves to whether the stream ended as a whole answer does. */
  readonly ended: Promise<boolean>;
  readonly #response: Readable;
  #rest = '';

  private constructor(response: Readable, status: number | undefined, headers: IncomingHttpHeaders) {
    this.#response = response;
    this.status = status ?? 0;
    this.headers = headers;
    response.setEncoding('utf8');
    response.on('data', (text: string) => this.#take(text));
    this.ended = new Promise((resolve) => {
      response.once('close', () => {
        this.hasEnded = true;
        resolve(response.readableEnded);
      });
    });
    // A reset ends it as well.
    response.on('error', () => undefined);
  }

  /**
   * Opens a stream; `headers` beside `Accept`. With `body` by POST, over TLS where the address says so. Resolves with its
   * head, whatever the status.
   */
  static async open(
    url: string,
    headers: Readonly<Record<string, string>> = {},
    { body, ca }: { readonly body?: string | undefined; readonly ca?: string } = {},
  ): Promise<EventReader> {
    const send = url.startsWith('https:') ? requestTls : request;
    const type = body === undefined ? {} : { 'content-type': 'application/json' };
    const sent = send(url, {
      method: body === undefined ? 'GET' : 'POST',
      agent: false,
      headers: { accept: 'text/event-stream', ...type, ...headers },
      ...(ca !== undefined && { ca }),
    });
    sent.end(body);
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    return new EventReader(response, response.statusCode, response.headers);
  }

  /** Opens a stream over an HTTP/2 session. */
  static async over(session: ClientHttp2Session, path: string, more: IncomingHttpHeaders = {}): Promise<EventReader> {
    const stream = session.request({ ':path': path, accept: 'text/event-stream', ...more });
    const [headers] = (await once(stream, 'response')) as [IncomingHttpHeaders & { readonly ':status'?: number }];
    return new EventReader(stream, headers[':status'], headers);
  }

  /** The bytes behind the last event: of another answer, its body. */
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

  /** Resolves when the text has `part`. */
  shows(part: string): Promise<void> {
    return until(() => this.text.includes(part));
  }

  close(): void {
    this.#response.destroy();
  }

  #take(text: string): void {
    this.text += text;
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

/** A client that the end of its test closes. */
interface Closed {
  close(): void;
}

/** A test whose streams end ahead of its gateway, which would wait for them as it drains. */
export function testStreams(
  name: string,
  run: (t: TestContext, open: <Reader extends Closed>(opening: Promise<Reader>) => Promise<Reader>) => Promise<void>,
): void {
  test(name, async (t) => {
    const readers: Closed[] = [];
    try {
      await run(t, async (opening) => {
        const reader = await opening;
        readers.push(reader);
        return reader;
      });
    } finally {
      for (const reader of readers) reader.close();
    }
  });
}
