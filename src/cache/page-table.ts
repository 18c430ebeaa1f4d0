/**
 * Which answers reads at neighbouring versions have: a table with a row for each page. Most pages have one version; only
 * more of them need a map.
 */
import type { AnswerId } from './answers.ts';
import type { PageId } from './page-index.ts';
import type { PurgeMarks } from './purge-marks.ts';
import { WideMap } from './wide-map.ts';

export interface NewPage {
  readonly slot: number;
  readonly answer: AnswerId;
  /** When the answer ends, as `performance.now` tells it; `undefined`: never. */
  readonly endMs: number | undefined;
  readonly marks: PurgeMarks;
}

const fewestPages = 1024;
/** In the slot of a page: see the maps for more. */
const hasEnd = 0x8000;
const hasOthers = 0x4000;
const slotMask = 0x3fff;

export class PageTable {
  #slots = new Uint16Array(fewestPages);
  #answers = new Uint32Array(fewestPages);
  #readMarks = new Float64Array(fewestPages);
  #accountMarks = new Float64Array(fewestPages);
  /** Other versions of pages that have more than one. */
  readonly #others = new WideMap<Map<number, AnswerId>>();
  readonly #endsMs = new WideMap<number>();
  /** By page: the last change of it, of all changes of pages. */
  #stamps = new Int32Array(fewestPages);
  #changes = 0;

  /** Fills the row of a page that is new. */
  add(page: PageId, { slot, answer, endMs, marks }: NewPage): void {
    if (page >= this.#slots.length) this.#grow(Math.max(page + 1, this.#slots.length * 2));
    this.#slots[page] = endMs === undefined ? slot : slot | hasEnd;
    if (endMs !== undefined) this.#endsMs.set(page, endMs);
    this.#answers[page] = answer;
    this.#readMarks[page] = marks.read;
    this.#accountMarks[page] = marks.account;
    this.#note(page);
  }

  /** The answer at a slot; `undefined` as well where it has ended. */
  find(page: PageId, slot: number): AnswerId | undefined {
    const word = this.#word(page);
    if ((word & hasEnd) !== 0 && performance.now() >= (this.#endsMs.get(page) ?? Infinity)) return undefined;
    if ((word & slotMask) === slot) return this.#answerOf(page);
    return (word & hasOthers) === 0 ? undefined : this.#others.get(page)?.get(slot);
  }

  /**
   * As long as it stays the same, the page is there and each of its slots has the answer that it had. It comes again
   * after 2^32 changes of pages.
   */
  stampOf(page: PageId): number {
    return this.#stamps[page] as number;
  }

  /** Whether the answers on the page have an end. */
  endsAt(page: PageId): boolean {
    return (this.#word(page) & hasEnd) !== 0;
  }

  /** The first version's slot. */
  slotOf(page: PageId): number {
    return this.#word(page) & slotMask;
  }

  /** Versions beyond the first. */
  othersOf(page: PageId): number {
    return this.#others.get(page)?.size ?? 0;
  }

  marksOf(page: PageId): PurgeMarks {
    return { read: this.#readMarks[page] as number, account: this.#accountMarks[page] as number };
  }

  /** Puts the answer at a slot; the one that was there before, if there was. */
  place(page: PageId, slot: number, answer: AnswerId): AnswerId | undefined {
    this.#note(page);
    if (this.slotOf(page) === slot) {
      const before = this.#answerOf(page);
      this.#answers[page] = answer;
      return before;
    }
    const others = this.#others.get(page) ?? new Map<number, AnswerId>();
    if (others.size === 0) this.#others.set(page, others);
    const before = others.get(slot);
    others.set(slot, answer);
    this.#slots[page] = this.#word(page) | hasOthers;
    return before;
  }

  /** Takes the answer at a slot off a page that has others; the answer, if it was there. */
  take(page: PageId, slot: number): AnswerId | undefined {
    const others = this.#others.get(page);
    const [next] = others ?? [];
    if (others === undefined || next === undefined) return undefined;
    const isFirst = this.slotOf(page) === slot;
    const gone = isFirst ? this.#answerOf(page) : others.get(slot);
    if (gone === undefined) return undefined;
    this.#note(page);
    others.delete(isFirst ? next[0] : slot);
    if (isFirst) {
      this.#slots[page] = (this.#word(page) & ~slotMask) | next[0];
      this.#answers[page] = next[1];
    }
    if (others.size > 0) return gone;
    this.#others.delete(page);
    this.#slots[page] = this.#word(page) & ~hasOthers;
    return gone;
  }

  /** Forgets the page; the answers that its versions had. */
  remove(page: PageId): readonly AnswerId[] {
    this.#note(page);
    const word = this.#word(page);
    const first = this.#answerOf(page);
    const answers = (word & hasOthers) === 0 ? [first] : [first, ...(this.#others.get(page)?.values() ?? [])];
    if ((word & hasOthers) !== 0) this.#others.delete(page);
    if ((word & hasEnd) !== 0) this.#endsMs.delete(page);
    return answers;
  }

  clear(): void {
    this.#stamps.fill(0);
    this.#others.clear();
    this.#endsMs.clear();
  }

  #note(page: PageId): void {
    this.#changes = (this.#changes + 1) | 0;
    this.#stamps[page] = this.#changes;
  }

  #word(page: PageId): number {
    return this.#slots[page] as number;
  }

  #answerOf(page: PageId): AnswerId {
    return this.#answers[page] as number;
  }

  #grow(length: number): void {
    const [slots, answers] = [new Uint16Array(length), new Uint32Array(length)];
    const [readMarks, accountMarks] = [new Float64Array(length), new Float64Array(length)];
    const stamps = new Int32Array(length);
    stamps.set(this.#stamps);
    this.#stamps = stamps;
    slots.set(this.#slots);
    answers.set(this.#answers);
    readMarks.set(this.#readMarks);
    accountMarks.set(this.#accountMarks);
    this.#slots = slots;
    this.#answers = answers;
    this.#readMarks = readMarks;
    this.#accountMarks = accountMarks;
  }
}
