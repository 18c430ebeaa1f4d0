/**
 * Names in Redis, readable for an operator: `lg:1:1a2b3c4d:0k3v9aq2:4|resource|0x1/0x1::coin::CoinInfo<…>|json|24414`
 * is a page of references (a hash, field = slot), `lg:1:1a2b3c4d:=DIGEST` an answer,
 * `lg:1:1a2b3c4d:0k3v9aq2:!PAGE@SLOT` the lease of a read in flight. The parts before the last are the config's prefix,
 * the format, the ledger's first transaction (a recreated test network keeps its chain id, but not that; protocol 1.2),
 * and the epoch of its history. An answer has no epoch: its name is a digest of its content, and only references connect
 * it to reads.
 */
import { hash } from 'node:crypto';
import { epochAt, type Epoch } from '../epoch/epoch.ts';
import { recordFormat } from '../record.ts';
import { keyText, versionOf, type CacheKey } from '../key.ts';
import { accountStarts, type PurgeScope } from '../purge.ts';

/** The parts of an epoch that decide names. */
export type NamedEpoch = Pick<Epoch, 'id' | 'before' | 'checkpoint'>;

/** Names in Redis on one history. */
export class AnswerNames {
  readonly epoch: NamedEpoch;
  readonly #start: string;

  /** `ledger`: chain id and first transaction. */
  constructor(prefix: string, ledger: string, epoch: NamedEpoch) {
    this.epoch = epoch;
    this.#start = startOf(prefix, ledger);
  }

  /** The name of the page, in the epoch of the key's version. */
  page(key: CacheKey): string {
    return pageIn(this.#start, epochAt(this.epoch, versionOf(key)), key);
  }

  answer(digest: string): string {
    return `${this.#start}=${digest}`;
  }

  lease(key: CacheKey): string {
    return `${this.#start}${this.epoch.id}:!${plainPage(keyText(key))}`;
  }
}

/** The names of the key's page in these epochs. */
export function pagesIn(prefix: string, ledger: string, key: CacheKey, epochs: readonly string[]): readonly string[] {
  return epochs.map((id) => pageIn(startOf(prefix, ledger), id, key));
}

/** SCAN patterns of the names in all epochs that a purge covers. For the versions of a view: all pages of its function. */
export function patternsOf(
  prefix: string,
  ledger: string,
  scope: Exclude<PurgeScope, { kind: 'read' }>,
): readonly string[] {
  const start = globText(startOf(prefix, ledger));
  const inEveryEpoch = (page: string): string => `${start}????????:${globText(page)}*`;
  switch (scope.kind) {
    case 'versions':
      return [inEveryEpoch(isView(scope.read) ? `${viewName(scope.read)}|` : scope.read)];
    case 'account':
      return accountStarts(scope.chainId, scope.address).map(inEveryEpoch);
    case 'everything':
      return [`${start}*`];
  }
}

/** Pages have the chain id themselves: the first transaction distinguishes ledgers of one chain id. */
function startOf(prefix: string, ledger: string): string {
  return `${prefix}:${recordFormat}:${ledger.slice(ledger.indexOf('.') + 1)}:`;
}

function pageIn(start: string, epoch: string, { page }: CacheKey): string {
  return `${start}${epoch}:${plainPage(page)}`;
}

/** A view's JSON becomes a digest: it may be long, and its braces would decide the key's slot in a cluster. */
function plainPage(page: string): string {
  return isView(page) ? `${viewName(page)}|${hash('sha256', page, 'base64url')}` : page;
}

function isView(page: string): boolean {
  return page.includes('|view|');
}

function viewName(page: string): string {
  const name = /"function":"([\w:]{1,200})"/.exec(page)?.[1] ?? '';
  const [chainId = ''] = page.split('|', 1);
  return `${chainId}|view|${name}`;
}

/** Escapes the special characters of a SCAN pattern. */
function globText(text: string): string {
  return text.replace(/[*?[\]\\^]/g, '\\$&');
}
