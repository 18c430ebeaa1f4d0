import assert from 'node:assert/strict';
import { test } from 'node:test';
import { change, editKeys, removal } from '../../../src/access/keys/edit-keys.ts';

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
