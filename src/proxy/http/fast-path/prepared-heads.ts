/** Makes the constant part of a hit's head, kept beside its target. */
import type { ContentCoding } from '../../../cache/entry.ts';
import type { FleetView } from '../../../upstream/fleet-view.ts';
import { smallestCompressed } from '../negotiate.ts';
import { conditionalTag } from '../conditions.ts';
import { unchangedHead, type CacheScope } from '../response-writer.ts';
import { ownCopy } from '../target.ts';
import type { Read, ReadResult } from '../../reads/read-result.ts';
import type { ServerParts } from '../../routes/server-parts.ts';
import type { PreparedHead } from '../../routes/target-cache.ts';
import { fieldLines, type CommonHeads } from './head-text.ts';

const longestHead = 8 * 1024;

/** Variant of the head. */
export interface HeadForm extends Pick<PreparedHead, 'isLatest' | 'ageSeconds' | 'wanted'> {
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

  /** `undefined`: memory lacks the answer. */
  prepare(read: Read, { isLatest, ageSeconds, wanted, view, scope }: HeadForm): PreparedHead | undefined {
    const { memory, reader, writer, cors } = this.#proxy;
    const held = reader.locate(read);
    if (held === undefined) return undefined;
    const entry = memory.answerOf(held);
    const { status, body } = entry;
    const isCodable = body.length >= smallestCompressed;
    const coding = isCodable ? wanted : undefined;
    const tag = conditionalTag(entry, coding);
    const sent = coding === undefined ? body : entry.coded[coding];
    const { version } = read;
    const served: ReadResult = { entry, version, isFinal: true, isLatest, ageSeconds, source: { kind: 'memory' } };
    const commonHead = writer.commonHeadOf(served, scope);
    const common = this.#commonHeads.of(status, commonHead);
    const ownHead = writer.ownHeadOf(served, coding);
    const unchangedOwn = fieldLines(ownHead);
    const content = sent === undefined ? '' : fieldLines(contentHead(coding, sent.length));
    // A joined text points to its flat form, one more cache line for each answer.
    const own = ownCopy(unchangedOwn + content);
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
      coding,
      status,
      common,
      own,
      sentBytes: sent?.length ?? -1,
      bodyBytes: body.length,
      fields: undefined,
      unchanged: tag === undefined ? undefined : this.#commonHeads.of(304, unchangedHead(commonHead)),
      unchangedLength: unchangedOwn.length,
      exposed: cors.furtherIn(ownHead),
    };
  }
}

function contentHead(coding: ContentCoding | undefined, length: number): readonly string[] {
  const head = ['Content-Length', String(length)];
  return coding === undefined ? head : ['Content-Encoding', coding, ...head];
}

/** Small integers lie in the object itself; other numbers cost a heap box. */
export function secondsOf(ms: number): number {
  return (ms / 1000) | 0;
}
