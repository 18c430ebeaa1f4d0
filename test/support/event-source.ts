/** A client of one event stream over a real socket, and what it has read of it. */
import { once } from 'node:events';
import { get as getH1, type IncomingMessage } from 'node:http';
import { get as getH1s } from 'node:https';
import { until } from './eventually.ts';

export interface OpenStream {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly response: IncomingMessage;
  /** All bytes so far. */
  readonly text: string;
  /** Resolves once the text has `part`. */
  has(part: string | RegExp): Promise<void>;
  /** Resolves to whether the stream ended as a whole answer does. */
  readonly ended: Promise<boolean>;
  close(): void;
}

/** Opens a stream; a plain answer is a short one. */
export async function openEvents(
  url: string,
  headers: Readonly<Record<string, string>> = {},
  ca?: string,
): Promise<OpenStream> {
  const asked = { agent: false, headers: { accept: 'text/event-stream', ...headers } } as const;
  const request = url.startsWith('https:') ? getH1s(url, { ...asked, ca }) : getH1(url, asked);
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  request.on('error', () => undefined);
  let text = '';
  response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
  response.on('error', () => undefined);
  const ended = new Promise<boolean>((resolve) => {
    response.once('close', () => resolve(response.complete));
  });
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    response,
    get text() {
      return text;
    },
    has: (part) => until(() => (typeof part === 'string' ? text.includes(part) : part.test(text))),
    ended,
    close: () => request.destroy(),
  };
}
