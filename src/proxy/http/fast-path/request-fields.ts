/** Reads the fields of HTTP/2 requests as the fast path reads header lines, once for all equal requests of a session. */
import type { HeaderBlock, HeaderBlocks } from './request-head.ts';

/** Fields beside `:path` are in a cache; a longer text is unsupported there. */
const mostFields = 2 * 64;

/** The fields of a `GET` but for its target. */
export class KnownFields {
  readonly block: HeaderBlock;
  /** Index of the target in the raw fields. */
  readonly pathAt: number;
  readonly #raw: readonly string[];

  private constructor(block: HeaderBlock, pathAt: number, raw: readonly string[]) {
    this.block = block;
    this.pathAt = pathAt;
    this.#raw = raw;
  }

  /** `undefined`: unsupported. `raw`: names and values in turn; names are lower case (RFC 9113 8.2). */
  static read(raw: readonly string[], blocks: HeaderBlocks): KnownFields | undefined {
    if (raw.length > mostFields) return undefined;
    let lines = '';
    let method: string | undefined;
    let authority: string | undefined;
    let pathAt = 0;
    for (let at = 0; at + 1 < raw.length; at += 2) {
      const name = raw[at] as string;
      const value = raw[at + 1] as string;
      if (name === ':method') method = value;
      else if (name === ':path') pathAt = at + 1;
      else if (name === ':authority') authority = value;
      else if (name !== ':scheme') {
        // Neither may end a line; `blocks` checks everything else.
        if (lineEnd.test(name) || lineEnd.test(value)) return undefined;
        lines += `${name}: ${value}\r\n`;
      }
    }
    // Other methods, and requests that name their host by `Host` alone, are rare.
    if (method !== 'GET' || pathAt === 0 || authority === undefined || lineEnd.test(authority)) return undefined;
    const block = blocks.find(`${lines}host: ${authority}`);
    if (block === undefined || !block.isKept) return undefined;
    return new KnownFields(block, pathAt, raw.with(pathAt, ''));
  }

  /** Whether `raw` differs from these fields in its target alone. */
  matches(raw: readonly string[]): boolean {
    const known = this.#raw;
    if (raw.length !== known.length) return false;
    for (let at = 0; at < raw.length; at += 1) {
      if (raw[at] !== known[at] && at !== this.pathAt) return false;
    }
    return true;
  }
}

const lineEnd = /[\r\n]/;
