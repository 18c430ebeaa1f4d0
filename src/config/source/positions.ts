/** Where each value of a config was given, in a file or outside it, so that problems can point there. */
import { isWithin, type KeyPath } from './key-path.ts';
import type { Where } from './problem.ts';

/** Where one key and its value stand. */
export interface Place {
  readonly key: Where;
  readonly value: Where;
  /** The text as written of a value that variables were put into: what may be shown instead of the value. */
  readonly template?: string | undefined;
}

/** Finds the place of a key in a file; `undefined` where the file does not give it. */
export type FindPlace = (path: KeyPath) => Place | undefined;

/** The places of a file, and those of values laid over it by flags and variables. */
export class Positions {
  readonly #find: FindPlace;
  readonly #replaced: { readonly path: KeyPath; readonly where: Where }[] = [];

  /** `find`: looks into the file; absent where there is none. */
  constructor(find: FindPlace = () => undefined) {
    this.#find = find;
  }

  /** Another source has replaced the value at `path` and everything below it. */
  replace(path: KeyPath, where: Where): void {
    this.#replaced.push({ path, where });
  }

  /** The text as written of a value that holds a variable, `undefined` for every other value. */
  findTemplate(path: KeyPath): string | undefined {
    return this.#at(path)?.template;
  }

  /** Where the value was given, or `undefined` when it is a default. */
  findValue(path: KeyPath): Where | undefined {
    return this.#at(path)?.value;
  }

  /** Where the value stands, or the nearest thing around it that stands somewhere. */
  ofValue(path: KeyPath): Where {
    return this.#nearest(path)?.value ?? { kind: 'nowhere' };
  }

  /** Where the key itself is written. */
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
