/** Remembers for every key of a config where its value came from, so that problems can point there. */
import { formatPath, isWithin, type KeyPath } from './key-path.ts';
import type { Where } from './problem.ts';

interface Place {
  readonly path: KeyPath;
  readonly key: Where;
  readonly value: Where;
}

export class Positions {
  readonly #places = new Map<string, Place>();
  readonly #templates = new Map<string, { readonly path: KeyPath; readonly text: string }>();

  set(path: KeyPath, value: Where, key: Where = value): void {
    this.#places.set(formatPath(path), { path, key, value });
  }

  /** Keeps the text as written of a value that variables were put into: what may be shown instead of the value. */
  setTemplate(path: KeyPath, text: string): void {
    this.#templates.set(formatPath(path), { path, text });
  }

  findTemplate(path: KeyPath): string | undefined {
    return this.#templates.get(formatPath(path))?.text;
  }

  /** Forgets where `path` and everything below it stood: another source has replaced the value. */
  replace(path: KeyPath, where: Where): void {
    for (const [text, place] of this.#places) if (isWithin(place.path, path)) this.#places.delete(text);
    for (const [text, template] of this.#templates) if (isWithin(template.path, path)) this.#templates.delete(text);
    this.set(path, where);
  }

  /** Where the value was given, or `undefined` when it is a default. */
  findValue(path: KeyPath): Where | undefined {
    return this.#places.get(formatPath(path))?.value;
  }

  /** Where the value stands, or the nearest thing around it that stands somewhere. */
  ofValue(path: KeyPath): Where {
    return this.#nearest(path)?.value ?? { kind: 'nowhere' };
  }

  /** Where the key itself is written. */
  ofKey(path: KeyPath): Where {
    return this.#nearest(path)?.key ?? { kind: 'nowhere' };
  }

  #nearest(path: KeyPath): Place | undefined {
    for (let length = path.length; length >= 0; length -= 1) {
      const place = this.#places.get(formatPath(path.slice(0, length)));
      if (place !== undefined) return place;
    }
    return undefined;
  }
}
