/** JSON values without loss, as `json-parser.ts` reads them, and their canonical text. */

/** A number as its source text: `1`, `1.0`, `1e0` and `18446744073709551616` all stay what they are. */
export interface JsonNumber {
  readonly kind: 'number';
  readonly text: string;
}

/** A JSON array, items in source order. */
export interface JsonArray {
  readonly kind: 'array';
  readonly items: readonly JsonValue[];
}

/** Members in source order; keys are unescaped and unique. */
export interface JsonObject {
  readonly kind: 'object';
  readonly members: ReadonlyMap<string, JsonValue>;
}

/** Any JSON value; numbers are `JsonNumber`, never a JavaScript number. */
export type JsonValue = null | boolean | string | JsonNumber | JsonArray | JsonObject;

/**
 * The one compact text of a value: members sorted by key (UTF-16 order), strings escaped as `JSON.stringify` does,
 * numbers as their source text. Equal texts mean equal values; `1` and `1.0` stay different on purpose.
 */
export function canonicalJson(value: JsonValue): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return canonicalString(value);
  if (typeof value === 'boolean') return value ? 'true' : 'false';
  switch (value.kind) {
    case 'number':
      return value.text;
    case 'array':
      return canonicalArray(value);
    case 'object':
      return canonicalObject(value);
  }
}

function canonicalArray(array: JsonArray): string {
  let text = '';
  for (const item of array.items) text += text === '' ? canonicalJson(item) : `,${canonicalJson(item)}`;
  return `[${text}]`;
}

function canonicalObject(object: JsonObject): string {
  let text = '';
  for (const key of [...object.members.keys()].sort()) {
    const member = `${canonicalString(key)}:${canonicalJson(object.members.get(key) ?? null)}`;
    text += text === '' ? member : `,${member}`;
  }
  return `{${text}}`;
}

/** Nearly every string needs no escape, and this test is several times cheaper than `JSON.stringify`. */
function canonicalString(value: string): string {
  return /^[ !#-[\]-~]*$/.test(value) ? `"${value}"` : JSON.stringify(value);
}
