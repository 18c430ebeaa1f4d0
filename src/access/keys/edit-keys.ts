/** Edits of a keys file: its other text stays, comments included. */
import { createRequire } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import type * as Yaml from 'yaml';
import type { Document, YAMLMap, YAMLSeq } from 'yaml';
import { nearMissHint } from '../../ledger/index.ts';
import { type FieldChanges, type KeyFields, KeysFault } from './key-source.ts';

const require = createRequire(import.meta.url);

/** Loaded with the first edit: most gateways make none. */
const yaml = (): typeof Yaml => require('yaml') as typeof Yaml;

/** Changes the list of keys; returns the index of the entry that it leaves, if any. Throws `KeysFault`. */
export type KeysEdit = (keys: YAMLSeq, document: Document) => number | undefined;

const heading = `# Keys of ledgergate: made by \`ledgergate keys create\`, stored as SHA-256 hashes only.\nkeys: []\n`;

/**
 * The text after the edit, and the index of its entry. Yields between its steps: parsing blocks requests. Throws TypeError
 * without a list of keys.
 */
export async function editKeys(text: string, edit: KeysEdit): Promise<{ text: string; index: number | undefined }> {
  // Entries with a key twice stay as they are.
  const { isSeq, parseDocument } = yaml();
  const document = parseDocument(text.trim() === '' ? heading : text, { uniqueKeys: false });
  const keys = document.get('keys');
  if (document.errors.length > 0 || !isSeq(keys)) throw new TypeError('a keys file without a list of keys');
  await setImmediate();
  const index = edit(keys, document);
  const after = print(document);
  await setImmediate();
  return { text: after, index };
}

function print(document: Document): string {
  try {
    return document.toString({ lineWidth: 0 });
  } catch (error) {
    const why = 'an alias (*) elsewhere in the keys file refers to what would be removed: edit the file by hand';
    throw new KeysFault('conflict', why, { cause: error });
  }
}

/** Adds a key. `file`: in the fault of a known name. */
export function addition(fields: KeyFields & { readonly name: string }, file: string): KeysEdit {
  return (keys, document) => {
    if (namesOf(keys).includes(fields.name)) {
      throw new KeysFault('exists', `${file} has a key named ${fields.name} already`);
    }
    // Flow style would put all keys on one line.
    keys.flow = false;
    const given = Object.entries(fields).filter(([, value]) => value !== undefined);
    keys.add(document.createNode(Object.fromEntries(given)));
    return keys.items.length - 1;
  };
}

/** Changes the fields of one entry; null removes a field. */
export function change(name: string, changes: FieldChanges, file: string): KeysEdit {
  return (keys, document) => {
    const names = namesOf(keys);
    const index = names.indexOf(name);
    if (index === -1) throw unknownKey(name, names, file);
    if (names.includes(name, index + 1)) throw new KeysFault('conflict', `${file} has several keys named ${name}`);
    const entry = keys.items[index] as YAMLMap;
    for (const [field, value] of Object.entries(changes)) {
      if (value === null) entry.delete(field);
      else if (value !== undefined) entry.set(field, document.createNode(value));
    }
    return index;
  };
}

/** Removes each entry of the name. */
export function removal(name: string, file: string): KeysEdit {
  return (keys) => {
    const names = namesOf(keys);
    if (!names.includes(name)) throw unknownKey(name, names, file);
    keys.items = keys.items.filter((_, index) => names[index] !== name);
    if (keys.items.length === 0) keys.flow = true;
    return undefined;
  };
}

function unknownKey(name: string, names: readonly string[], file: string): KeysFault {
  return new KeysFault('unknown', `${file} has no key named ${name}${nearMissHint(name, names)}`);
}

function namesOf(keys: YAMLSeq): readonly string[] {
  const { isMap } = yaml();
  return keys.items.map((item) => (isMap(item) ? String(item.get('name')) : ''));
}
