import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { replaceFile } from '../../../src/access/keys/replace-file.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

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
