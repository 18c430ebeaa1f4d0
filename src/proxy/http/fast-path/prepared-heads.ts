/** Makes the constant part of a hit's head, kept beside its target. */
import type { ContentCoding } from '../../../cache/entry.ts';
import type { FleetView } from '../../../upstream/fleet-view.ts';
import { smallestCompressed } from '../negotiate.ts';
import { conditionalTag } from '../conditions.ts';
import { unchangedHead, type CacheScope } from '../response-writer.ts';
import type { Read, ReadResult } from '../../reads/read-result.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { PreparedHead } from '../../routes/target-cache.ts';
import { fieldLines, type CommonHeads } from './head-text.ts';

const longestHead = 8 * 1024;

/** Member of a cached target: the head of its answer, or of its 304. */
export type HeadSlot = 'prepared' | 'unchanged';

/** Variant of the head. */
export interface HeadForm extends Pick<PreparedHead, 'isLatest' | 'ageSeconds' | 'wanted'> {
  readonly slot: HeadSlot;
  readonly view: FleetView;
  readonly scope: CacheScope;
}

/** Prepares heads of answers in memory. */
export class PreparedHeads {
  readonly #proxy: ServerParts;
  readonly #commonHeads: CommonHeads;

  constructor(proxy: ServerParts, commonHeads: CommonHeads) {
    this.#proxy = proxy;
    this.#commonHeads = commonHeads;
  }

  /** `undefined`: memory lacks the answer, or its body in the wanted coding, or the answer has no 304. */
  prepare(read: Read, { slot, isLatest, ageSeconds, wanted, view, scope }: HeadForm): PreparedHead | undefined {
    const { memory, reader, writer, cors } = this.#proxy;
    const held = reader.locate(read);
    if (held === undefined) return undefined;
    const entry = memory.answerOf(held);
    const { body } = entry;
    const isCodable = body.length >= smallestCompressed;
    const wantedCoding = isCodable ? wanted : undefined;
    const tag = conditionalTag(entry, wantedCoding);
    const sent = slot === 'unchanged' ? nothing : wantedCoding === undefined ? body : entry.coded[wantedCoding];
    if (sent === undefined || (slot === 'unchanged' && tag === undefined)) return undefined;
    const { version } = read;
    const served: ReadResult = { entry, version, isFinal: true, isLatest, ageSeconds, source: { kind: 'memory' } };
    const commonHead = writer.commonHeadOf(served, scope);
    const head = writer.ownHeadOf(served, wantedCoding);
    const exposed = cors.furtherIn(head);
    const status = slot === 'unchanged' ? 304 : entry.status;
    if (slot === 'prepared') head.push(...contentHead(wantedCoding, sent.length));
    const common = this.#commonHeads.of(status, slot === 'unchanged' ? unchangedHead(commonHead) : commonHead);
    const own = fieldLines(head);
    if (common.length + own.length > longestHead) return undefined;
    memory.use(held);
    const { chainId, ledgerWideNames } = view;
    const { row, stamp, answer } = held;
    return {
      row,
      stamp,
      answer,
      chainId,
      hits: reader.hitsOf(read),
      ledgerWideNames,
      usedAt: secondsOf(performance.now()),
      version,
      isLatest,
      scope,
      ageSeconds,
      wanted,
      isCodable,
      coding: slot === 'unchanged' ? undefined : wantedCoding,
      status,
      tag,
      exposed,
      common,
      own,
      sentBytes: sent.length,
      bodyBytes: body.length,
      fields: undefined,
    };
  }
}

const nothing = Buffer.alloc(0);

function contentHead(coding: ContentCoding | undefined, length: number): readonly string[] {
  const head = ['Content-Length', String(length)];
  return coding === undefined ? head : ['Content-Encoding', coding, ...head];
}

/** Small integers lie in the object itself; other numbers cost a heap box. */
export function secondsOf(ms: number): number {
  return (ms / 1000) | 0;
}
