/** Pages of transactions as nodes answer them. */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import type { LedgerVersion } from '../../src/ledger/index.ts';
import { cutPage, type Page } from '../../src/proxy/reads/follower/page.ts';
import { ledgerInfo } from './ledger-info.ts';

export const v = (version: number | bigint): LedgerVersion => BigInt(version) as LedgerVersion;

export const hashOf = (version: number | bigint, history = ''): string => `0x${hash('sha256', `${history}${version}`)}`;

export function transactionOf(
  version: number | bigint,
  { history = '', ...members }: Record<string, unknown> & { history?: string } = {},
): string {
  return JSON.stringify({ version: String(version), hash: hashOf(version, history), ...members });
}

/** The body of a list of the transactions from `first` to before `end`. */
export function listOf(first: number, end: number, options?: Parameters<typeof transactionOf>[1]): string {
  const items = Array.from({ length: Math.max(end - first, 0) }, (_, index) => transactionOf(first + index, options));
  return `[${items.join()}]`;
}

type Answer = Parameters<typeof cutPage>[0];

/** A node's answer with this body. */
export function answerOf(text: string, changed: Partial<Answer> & Readonly<Record<string, unknown>> = {}): Answer {
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    info: ledgerInfo({ version: 1_000n }),
    coding: undefined,
    isFramed: true,
    body: Buffer.from(text),
    upstream: { name: 'one' },
    ...changed,
  };
}

/** The page of transactions from `first` to before `end`. */
export async function pageOf(first: number, end: number, options?: Parameters<typeof transactionOf>[1]): Promise<Page> {
  return (await cutPage(answerOf(listOf(first, end, options)), v(first), undefined)) ?? assert.fail('it is no page');
}
