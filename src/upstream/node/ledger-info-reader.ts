import type { Dialect, HeaderValues, LedgerInfo } from '../../ledger/index.ts';

/** Reads as `Dialect.findInfo` does, and returns the last object again while the headers repeat: a node parses once per change. */
export class LedgerInfoReader {
  #last: LedgerInfo | undefined;
  #lastHeaders: HeaderValues = {};
  #lastDialect: Dialect['name'] = 'node';

  find(headers: HeaderValues, dialect: Dialect): LedgerInfo | undefined {
    const before = this.#lastHeaders;
    const isSame = headers === before || dialect.seven.every((name) => headers[name] === before[name]);
    if (this.#last !== undefined && this.#lastDialect === dialect.name && isSame) return this.#last;
    this.#last = dialect.findInfo(headers);
    this.#lastHeaders = headers;
    this.#lastDialect = dialect.name;
    return this.#last;
  }
}
