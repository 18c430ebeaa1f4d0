/** Problems of a config: paths of its keys, and places of its values, in a file or outside it. */

/** A place in the file (line and column count from 1), or a flag or variable. */
export type Where =
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: 'setting'; readonly name: string }
  | { readonly kind: 'nowhere' };

/** A fault of the value at `path`. */
export interface Problem {
  readonly where: Where;
  readonly path: KeyPath;
  readonly message: string;
}

/** An invalid config; `problems`: all of them, in the order of the file. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const sorted = [...problems].sort((left, right) => order(left.where) - order(right.where));
    super(sorted.map((problem) => ConfigError.format(problem)).join('\n'));
    this.problems = sorted;
  }

  /** `file:line:column: key.path: message`, clickable in editors and terminals. */
  static format({ where, path, message }: Problem): string {
    return [formatWhere(where), ConfigError.formatPath(path), message].filter((part) => part !== '').join(': ');
  }

  /** `['upstreams', 1, 'tier']` as `upstreams[1].tier`. */
  static formatPath(path: KeyPath): string {
    let text = '';
    for (const part of path) {
      if (typeof part === 'number') text += `[${part}]`;
      else if (/^[A-Za-z_][\w-]*$/.test(part)) text += text === '' ? part : `.${part}`;
      else text += `[${JSON.stringify(part)}]`;
    }
    return text;
  }
}

function formatWhere(where: Where): string {
  switch (where.kind) {
    case 'file':
      return `${where.file}:${where.line}:${where.column}`;
    case 'setting':
      return where.name;
    case 'nowhere':
      return '';
  }
}

/** Whether both places are known and equal. */
export function isSamePlace(left: Where, right: Where): boolean {
  return left.kind !== 'nowhere' && formatWhere(left) === formatWhere(right);
}

function order(where: Where): number {
  return where.kind === 'file' ? where.line * 1e6 + where.column : 0;
}

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

/** The path of a key in a config file: `['upstreams', 1, 'tier']`, written `upstreams[1].tier`. */
export type KeyPath = readonly (string | number)[];

/** Whether `path` is `ancestor` or below it. */
export function isWithin(path: KeyPath, ancestor: KeyPath): boolean {
  return ancestor.every((part, index) => path[index] === part);
}

/** The value at `path`, `undefined` when there is none. */
export function findValue(root: unknown, path: KeyPath): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Readonly<Record<string | number, unknown>>)[part];
  }
  return value;
}

/** Whether `value` is an object and no list. */
export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
