/**
 * Caches in front, by what answers allow: `public, max-age=31536000, immutable` is kept (GET of state at a version),
 * `no-store` is not, and POST is never. Their places share nothing, and nothing is pushed out.
 */
import type { Others, SharedRead } from './others.ts';
import type { Arrival } from './traffic.ts';

/** Whether a CDN may keep the answer: GET, pinned by the client, immutable. */
export function mayCdnKeep({ kind, subject }: Arrival): boolean {
  const isPinned = kind === 'head' || kind === 'recent' || kind === 'deep';
  return isPinned && subject !== undefined && subject.operation !== 'view';
}

export class Cdn {
  readonly #places: number;
  readonly #others: Others;
  readonly #held = new Set<string>();

  constructor(places: number, others: Others) {
    this.#places = places;
    this.#others = others;
  }

  /** Whether the place answers by itself; otherwise it has the answer from now on. `place`: drawn, from 0 up to 1. */
  find(read: SharedRead, atMs: number, place: number): boolean {
    const name = `${Math.floor(place * this.#places)} ${read.name}`;
    if (this.#held.has(name)) return true;
    this.#held.add(name);
    return this.#others.hasRead({ ...read, name }, atMs);
  }
}
