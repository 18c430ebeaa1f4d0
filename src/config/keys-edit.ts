/** Edits of a keys file that keep its other text, comments included. */
import { isMap, isSeq, parseDocument, type Document, type YAMLSeq } from 'yaml';
import type { KeyInput } from './keys-file.ts';

const heading = `# Keys of ledgergate: made by \`ledgergate keys create\`, stored as SHA-256 hashes only.\nkeys: []\n`;

/** The text with one more key; absent fields are left out. `text`: a valid keys file, or empty. */
export function withKey(text: string, key: KeyInput): string {
  const document = parseDocument(text.trim() === '' ? heading : text);
  const keys = keysOf(document);
  // Flow style would put all keys on one line.
  keys.flow = false;
  const given = Object.entries(key).filter(([, value]) => value !== undefined);
  keys.add(document.createNode(Object.fromEntries(given)));
  return document.toString({ lineWidth: 0 });
}

/** The text without the key `name`; `undefined` when there is none. */
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
