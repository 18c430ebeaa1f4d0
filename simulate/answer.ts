/**
 * Answers of nodes: bytes of the subject's size, which change when the subject is written. The product's own policy
 * decides whether an answer is kept.
 */
import { contentDigest, type CachedResponse } from '../src/cache/record.ts';
import { decide } from '../src/proxy/reads/policy.ts';
import { JsonBody } from '../src/ledger/answer-body.ts';
import type { LedgerInfo } from '../src/ledger/ledger-headers.ts';
import type { LedgerVersion } from '../src/ledger/version.ts';
import { chainId, type SimulatedLedger } from './ledger.ts';
import { uniformOf } from './random.ts';
import type { LedgerShape } from './shape.ts';
import type { Subject } from './traffic.ts';

/** Gas of a view that sample nodes report, for each byte of its answer. */
const gasPerByte = 7;
const padding = 'x'.repeat(64 * 1024);

/** The answer as memory and Redis would keep it; `undefined` when it may not be kept. */
export function answerTo(
  subject: Subject,
  version: LedgerVersion | undefined,
  epoch: string,
  info: LedgerInfo,
): CachedResponse | undefined {
  const { operation } = subject;
  const body = Buffer.from(bodyText(subject, version, epoch));
  const contentType = 'application/json; charset=utf-8';
  const headers = { 'content-type': contentType };
  const facts = { status: 200, info, headers, coding: undefined, body, isFramed: true };
  const read = { operation, form: 'json', version } as const;
  const decision = decide(read, { ...facts, json: new JsonBody(body) }, { chainId, head: info });
  if (decision !== 'stored') return undefined;
  const content = {
    status: 200,
    contentType,
    body,
    gasUsed: operation === 'view' ? String(body.length * gasPerByte) : undefined,
    cursor: undefined,
    ownHeaders: undefined,
    committedAt: operation === 'transaction' ? info.version : undefined,
    lifetimeMs: version === undefined ? 600_000 : Infinity,
  };
  return { ...content, digest: contentDigest(content), coded: {} };
}

/** How often the subject had been written at a block: its bytes are equal between two writes. */
export function epochOf(subject: Subject, block: number, ledger: SimulatedLedger, shape: LedgerShape): string {
  const perSecond = shape.writesPerSecond * subject.share;
  // Sample nodes' resources differ at every version, their views at none.
  if (!Number.isFinite(perSecond)) return subject.operation === 'view' ? '' : String(block);
  const writes = (ledger.committedMs(block) / 1000) * perSecond + uniformOf(subject.text, 1);
  return String(Math.floor(writes));
}

function bodyText({ operation, text, bytes }: Subject, version: LedgerVersion | undefined, epoch: string): string {
  if (operation === 'view') return padded(`["${uniformOf(text, 2)} ${epoch} `, '"]', bytes);
  const more = operation === 'transaction' ? `"version":"1","type":"user_transaction","success":true,` : '';
  const name = operation === 'transaction' ? text : `${text} ${version === undefined ? '' : epoch}`;
  return padded(`{${more}"of":"${name}","padding":"`, '"}', bytes);
}

function padded(start: string, end: string, bytes: number): string {
  return start + padding.slice(0, Math.max(0, bytes - start.length - end.length)) + end;
}
