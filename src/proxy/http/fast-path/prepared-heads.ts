/** Makes the constant part of a hit's head, kept beside its target. */
import type { ContentCoding } from '../../../cache/index.ts';
import type { Fleet } from '../../../upstream/index.ts';
import { smallestCompressed } from '../negotiate.ts';
import { unchangedHead, type CacheScope } from '../answer-heads.ts';
import { ownCopy } from '../target.ts';
import type { Read, ReadResult } from '../../reads/index.ts';
import type { ServerParts } from '../service.ts';
import { secondsOf, type PreparedHead, type SharedHead } from '../target-cache.ts';
import { fieldLines, headText } from './head-text.ts';

const longestHead = 8 * 1024;

/** Variant of the head. */
export interface HeadForm extends Pick<SharedHead, 'isLatest' | 'wanted'> {
  readonly ageSeconds: number;
  readonly view: Fleet['view'];
  readonly scope: CacheScope;
}

/** Prepares heads of answers in memory. */
export class PreparedHeads {
  readonly #proxy: ServerParts;
  readonly #sharedHeads: SharedHeads;

  constructor(proxy: ServerParts, sharedHeads: SharedHeads) {
    this.#proxy = proxy;
    this.#sharedHeads = sharedHeads;
  }

  /** `undefined`: memory lacks the answer. */
  prepare(read: Read, { isLatest, ageSeconds, wanted, view, scope }: HeadForm): PreparedHead | undefined {
    const { memory, reader, heads, cors } = this.#proxy;
    const held = reader.locate(read);
    if (held === undefined) return undefined;
    const entry = memory.answerOf(held);
    const { status, body } = entry;
    const isCodable = body.length >= smallestCompressed;
    const coding = isCodable ? wanted : undefined;
    const sent = coding === undefined ? body : entry.coded[coding];
    const { version } = read;
    // The latest state has the same head before and after.
    const isProvisional = !isLatest && reader.isProvisional(read);
    const source = { kind: 'memory' } as const;
    const served: ReadResult = { entry, version, isProvisional, isLatest, ageSeconds, source };
    const ownHead = heads.ownHeadOf(served, coding);
    const { chainId, ledgerWideNames } = view;
    const exposed = cors.furtherIn(ownHead);
    const shared = this.#sharedHeads.of(
      { chainId, ledgerWideNames, isLatest, isProvisional, scope, wanted, isCodable, coding, status, exposed },
      heads.commonHeadOf(served, scope),
    );
    const unchangedOwn = fieldLines(ownHead);
    const content = sent === undefined ? '' : fieldLines(contentHead(coding, sent.length));
    // A joined text points to its flat form, one more cache line for each answer.
    const own = ownCopy(unchangedOwn + content);
    if (shared.bytes.length + own.length > longestHead) return undefined;
    memory.use(held);
    const { row, stamp, answer } = held;
    return {
      row,
      stamp,
      answer,
      shared,
      hits: reader.hitsOf(read),
      usedAt: secondsOf(performance.now()),
      version,
      ageSeconds,
      own,
      unchangedLength: unchangedOwn.length,
      sentBytes: sent?.length ?? -1,
      fields: undefined,
    };
  }
}

/** Interns the few beginnings that the heads of all targets share. */
export class SharedHeads {
  readonly #known = new Map<string, SharedHead>();
  #ledgerWideNames: SharedHead['ledgerWideNames'] = new Set();

  /** `head`: the first headers, names and values in turn. Throws as `fieldLines`. */
  of(form: Omit<SharedHead, 'bytes' | 'unchanged' | 'fields'>, head: readonly string[]): SharedHead {
    const { ledgerWideNames, ...rest } = form;
    if (ledgerWideNames !== this.#ledgerWideNames) this.#known.clear();
    this.#ledgerWideNames = ledgerWideNames;
    const text = headText(form.status, head);
    const name = Object.values(rest).join('|') + text;
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    if (this.#known.size >= mostKnown) this.#known.clear();
    const unchanged = Buffer.from(headText(304, unchangedHead(head)), 'latin1');
    const made = { ...form, bytes: Buffer.from(text, 'latin1'), unchanged, fields: undefined };
    this.#known.set(name, made);
    return made;
  }
}

const mostKnown = 64;

function contentHead(coding: ContentCoding | undefined, length: number): readonly string[] {
  const head = ['Content-Length', String(length)];
  return coding === undefined ? head : ['Content-Encoding', coding, ...head];
}
