import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test, type TestContext } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeVersions, withoutNode } from '../../support/runs.ts';
import { call, start } from '../command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

/** Lines of `check` below its table, for a store at `path`, or in a folder of the test. */
async function checked(t: TestContext, pathIn: (folder: string) => string, maxBytes = '64MiB') {
  const folder = temporaryFolder(t);
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

const oneNode = 'upstreams:\n  - { name: n0, url: "http://127.0.0.1:9" }\n';
const withStore = `${oneNode}cache:\n  store: { path: store }\n`;
const oldest = nodeVersions.find(({ name }) => name === 'Node 22');
assert.ok(oldest !== undefined);

test(
  'check and start warn of an experimental SQLite where a store needs it',
  { skip: withoutNode(oldest) },
  async (t) => {
    const options = { node: oldest.node ?? '' };
    const [plain, stored] = [configFile(t, oneNode), configFile(t, withStore)];

    const without = await start(t, ['check', '--offline', plain], options).ended;
    const checked = await start(t, ['check', '--offline', stored], options).ended;
    const ports = ['--host', '127.0.0.1', '--port', '0', '--operations-port', '0'];
    const served = start(t, ['serve', '--config', stored, ...ports], options);

    assert.deepEqual(without, { code: 0, out: `${plain}: fine\n`, err: '' });
    assert.match(checked.out, /^warning: cache\.store: SQLite is experimental in Node 22\.\d+\.\d+: /);
    assert.equal(checked.code, 0);
    await served.line(/^warning: cache\.store: SQLite is experimental in Node 22\./);
  },
);

test('a store on a Node without SQLite is a problem of check and start; without a store it is none', async (t) => {
  const env = { NODE_OPTIONS: '--no-experimental-sqlite' };
  const [plain, stored] = [configFile(t, oneNode), configFile(t, withStore)];
  const problem = `${stored}:4:3: cache.store: needs SQLite, which this Node ${process.versions.node} lacks\n`;

  const without = await start(t, ['check', '--offline', plain], { env }).ended;
  const checked = await start(t, ['check', stored], { env }).ended;
  const served = await start(t, ['serve', '--config', stored], { env }).ended;

  assert.deepEqual(without, { code: 0, out: `${plain}: fine\n`, err: '' });
  assert.deepEqual(checked, { code: 2, out: `${problem}${stored}: 1 problem\n`, err: '' });
  assert.deepEqual(served, { code: 2, out: '', err: problem });
});
