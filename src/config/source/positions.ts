/** The places of config values, in a file or outside it, for problems. */
import { isWithin, type KeyPath } from './key-path.ts';
import type { Where } from './problem.ts';

/** The place of one key and its value. */
export interface Place {
  readonly key: Where;
  readonly value: Where;
  /** The text as written, where it contains variables: printed instead of the value. */
  readonly template?: string | undefined;
}

/** The place of a key in a file; `undefined` when the file lacks it. */
type FindPlace = (path: KeyPath) => Place | undefined;

/** The places of a file's values and of those that override them. */
export class Positions {
  readonly #find: FindPlace;
  readonly #replaced: { readonly path: KeyPath; readonly where: Where }[] = [];

  constructor(find: FindPlace = () => undefined) {
    this.#find = find;
  }

  /** Another source overrides the value at `path` and everything below it. */
  replace(path: KeyPath, where: Where): void {
    this.#replaced.push({ path, where });
  }

  /** The text as written of a value with variables, `undefined` for others. */
  findTemplate(path: KeyPath): string | undefined {
    return this.#at(path)?.template;
  }

  /** The place of a value, `undefined` for a default. */
  findValue(path: KeyPath): Where | undefined {
    return this.#at(path)?.value;
  }

  /** The place of the value, or of the nearest parent that has one. */
  ofValue(path: KeyPath): Where {
    return this.#nearest(path)?.value ?? { kind: 'nowhere' };
  }

  /** The place of the key, or of the nearest parent that has one. */
  ofKey(path: KeyPath): Where {
    return this.#nearest(path)?.key ?? { kind: 'nowhere' };
  }

  #at(path: KeyPath): Place | undefined {
    const last = this.#replaced.findLast((replaced) => isWithin(path, replaced.path));
    if (last === undefined) return this.#find(path);
    return last.path.length === path.length ? { key: last.where, value: last.where } : undefined;
  }

  #nearest(path: KeyPath): Place | undefined {
    for (let length = path.length; length >= 0; length -= 1) {
      const place = this.#at(path.slice(0, length));
      if (place !== undefined) return place;
    }
    return undefined;
  }
}
