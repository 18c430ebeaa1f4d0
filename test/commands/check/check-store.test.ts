import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { call } from '../command-line.ts';

/** Lines of `check` below its table, for a store at `path`, or in a folder of the test. */
async function checked(t: TestContext, pathIn: (folder: string) => string, maxBytes = '64MiB') {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-check-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const node = await fakeNode(t, {});
  const path = pathIn(folder);
  const store = `cache:\n  store: { path: "${path}", maxBytes: ${maxBytes} }\n`;
  const file = configFile(t, `upstreams:\n  - { name: n0, url: "${node.url}" }\n${store}`);
  const { code, out } = await call(['check', file]);
  return {
    code,
    path,
    lines: out
      .slice(out.indexOf('\n\n') + 2)
      .replaceAll(file, 'F')
      .split('\n'),
  };
}

test('a folder that the gateway can create is fine, and is not created', async (t) => {
  const { code, path, lines } = await checked(t, (folder) => join(folder, 'store'));

  assert.deepEqual({ code, lines }, { code: 0, lines: ['F: fine'] });
  assert.equal(existsSync(path), false);
});

test('a folder in one that is missing is reported at its key', async (t) => {
  const { code, lines } = await checked(t, (folder) => join(folder, 'gone', 'store'));

  assert.deepEqual(
    { code, lines },
    {
      code: 1,
      lines: [
        'F:4:18: cache.store.path: its folder cannot be used: it is missing, or closed to this user',
        'F: 1 problem',
      ],
    },
  );
});

test('a file in place of the folder is reported', async (t) => {
  const { code, lines } = await checked(t, (folder) => {
    writeFileSync(join(folder, 'store'), '');
    return join(folder, 'store');
  });

  assert.equal(code, 1);
  assert.match(lines[0] ?? '', /^F:4:18: cache\.store\.path: its folder cannot be used/);
});

test('a store larger than the disk is a warning', async (t) => {
  const { code, lines } = await checked(t, (folder) => folder, '1000000GiB');

  assert.equal(code, 0);
  assert.match(lines.join('\n'), /cache\.store\.maxBytes is more than the disk has free: 1000000\.0 GiB beside/);
});
