import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { change, editKeys, removal } from '../../../src/access/keys/edit-keys.ts';
import { replaceFile } from '../../../src/access/keys/replace-file.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const entry = (name: string, origins: string): string =>
  `  - { name: ${name}, plan: free, sha256: ${'a'.repeat(64)}, origins: ${origins} }\n`;

test('an entry that an alias refers to is a conflict with words for operators, not a fault', async () => {
  const text = `keys:\n${entry('one', '&pages ["https://a.example"]')}${entry('two', '*pages')}`;
  const fault = { name: 'KeysFault', reason: 'conflict', message: /^an alias \(\*\) elsewhere in the keys file/ };
  await assert.rejects(editKeys(text, removal('one', 'keys.yaml')), fault);
  await assert.rejects(editKeys(text, change('one', { origins: null }, 'keys.yaml')), fault);
  const left = await editKeys(text, removal('two', 'keys.yaml'));
  assert.match(left.text, /name: one/);
  assert.doesNotMatch(left.text, /name: two/);
});

test('what a writer without the lock saves during a change is not lost', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'keys.yaml');
  writeFileSync(file, 'before');
  const replaced = replaceFile(file, (text) => {
    writeFileSync(file, 'saved by an editor');
    return Promise.resolve(`${text}, changed`);
  });
  await assert.rejects(replaced, {
    reason: 'unavailable',
    message: /another program has changed it meanwhile: try again$/,
  });
  assert.equal(readFileSync(file, 'utf8'), 'saved by an editor');
  assert.deepEqual(readdirSync(folder), ['keys.yaml']);
});
