/** Where a key stands in a config file: `['upstreams', 1, 'tier']`, written `upstreams[1].tier`. */

export type KeyPath = readonly (string | number)[];

export function formatPath(path: KeyPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(part)) text += text === '' ? part : `.${part}`;
    else text += `[${JSON.stringify(part)}]`;
  }
  return text;
}

/** True for `path` itself and everything below it. */
export function isWithin(path: KeyPath, ancestor: KeyPath): boolean {
  return ancestor.every((part, index) => path[index] === part);
}

/** The value at `path`, or `undefined` when something on the way is missing. */
export function findValue(root: unknown, path: KeyPath): unknown {
  let value = root;
  for (const part of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Readonly<Record<string | number, unknown>>)[part];
  }
  return value;
}

export function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
