/** Changes to the text of a keys file that leave the rest of it as its authors wrote it, comments included. */
import { isMap, isSeq, parseDocument, type Document, type YAMLSeq } from 'yaml';
import type { OperationName } from './config.ts';

/** A key as it is written into the file; what is absent is left out. */
export interface NewKey {
  readonly name: string;
  readonly tenant?: string | undefined;
  readonly plan: string;
  readonly sha256: string;
  readonly operations?: readonly OperationName[] | undefined;
  readonly origins?: readonly string[] | undefined;
  readonly expires?: string | undefined;
}

const heading = `# Keys of ledgergate: made by \`ledgergate keys create\`, stored as SHA-256 hashes only.\nkeys: []\n`;

/** The text with one more key. `text`: a keys file without faults, or nothing. */
export function withKey(text: string, key: NewKey): string {
  const document = parseDocument(text.trim() === '' ? heading : text);
  const keys = keysOf(document);
  // Written on one line, `[]` or `[{ ... }]`, keys would make one long line.
  keys.flow = false;
  const given = Object.entries(key).filter(([, value]) => value !== undefined);
  keys.add(document.createNode(Object.fromEntries(given)));
  return document.toString({ lineWidth: 0 });
}

/** The text without the key of that name, or `undefined` when there is none. */
export function withoutKey(text: string, name: string): string | undefined {
  const document = parseDocument(text);
  const keys = keysOf(document);
  const index = keys.items.findIndex((item) => isMap(item) && item.get('name') === name);
  if (index === -1) return undefined;
  keys.delete(index);
  if (keys.items.length === 0) keys.flow = true;
  return document.toString({ lineWidth: 0 });
}

function keysOf(document: Document): YAMLSeq {
  const keys = document.get('keys');
  if (isSeq(keys)) return keys;
  throw new TypeError('a keys file without a list of keys');
}
