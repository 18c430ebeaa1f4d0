/** The path of a key in a config file: `['upstreams', 1, 'tier']`, written `upstreams[1].tier`. */
export type KeyPath = readonly (string | number)[];

/** The path as text. */
export function formatPath(path: KeyPath): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(part)) text += text === '' ? part : `.${part}`;
    else text += `[${JSON.stringify(part)}]`;
  }
  return text;
}

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
