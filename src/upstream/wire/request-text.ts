/** Requests as they go over the wire (RFC 9112 3 and 5). */
import type { WireRequest } from '../exchange.ts';
import { forbiddenInValue } from './field-value.ts';

/** Made here, or of no use between a gateway and its node. */
const ownNames = new Set(['connection', 'keep-alive', 'transfer-encoding', 'upgrade', 'expect', 'te', 'trailer']);
const name = /^[!#$%&'*+.^`|~\w-]+$/;
const forbiddenInPath = /[^!-~\x80-\xff]/;
/** Methods whose request says that it has no body. */
const withBody = new Set(['POST', 'PUT', 'PATCH']);

export interface RequestParts extends Pick<WireRequest, 'method' | 'path' | 'headers'> {
  /** Of the body; `undefined` without one. */
  readonly bytes: number | undefined;
}

/** Makes the heads of requests to one node. */
export class RequestTexts {
  readonly #host: string;
  /** Of headers that many requests share: those are frozen. */
  readonly #known = new WeakMap<RequestParts['headers'], string>();

  /** `host`: the node's, with its port where that is not the usual one. */
  constructor(host: string) {
    this.#host = host;
  }

  /** With the empty line; a byte a character. Throws `TypeError` for what HTTP forbids. */
  of({ method, path, headers, bytes }: RequestParts): string {
    if (forbiddenInPath.test(path) || !path.startsWith('/')) throw new TypeError('no path of a request');
    let lines = this.#known.get(headers);
    if (lines === undefined) {
      lines = this.#linesOf(headers);
      if (Object.isFrozen(headers)) this.#known.set(headers, lines);
    }
    const length = bytes ?? (withBody.has(method) ? 0 : undefined);
    const last = length === undefined ? '\r\n' : `content-length: ${length}\r\n\r\n`;
    return `${method} ${path} HTTP/1.1\r\n${lines}${last}`;
  }

  #linesOf(headers: RequestParts['headers']): string {
    let lines = '';
    let host = this.#host;
    for (const [given, value] of Object.entries(headers)) {
      const key = given.toLowerCase();
      if (!name.test(key) || ownNames.has(key)) throw new TypeError('a header that cannot be sent on');
      for (const one of [value].flat()) {
        if (forbiddenInValue.test(one)) throw new TypeError('a header holds what HTTP forbids');
        if (key === 'host') host = one;
        else if (key !== 'content-length') lines += `${key}: ${one}\r\n`;
      }
    }
    return `host: ${host}\r\nconnection: keep-alive\r\n${lines}`;
  }
}
