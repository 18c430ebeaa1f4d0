import assert from 'node:assert/strict';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { configFile } from '../../config/config-file.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { nodeVersions, withoutNode } from '../../support/runs.ts';
import { call, start } from '../command-line.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const closed =
  'F:4:18: cache.store.path: its folder cannot be used: it is missing, or closed to this user\nF: 1 problem';
const stores: readonly (readonly [name: string, found: RegExp | string, code: number, maxBytes?: string])[] = [
  ['store', 'F: fine', 0],
  ['gone/store', closed, 1],
  ['file', /^F:4:18: cache\.store\.path: its folder cannot be used/, 1],
  ['.', /cache\.store\.maxBytes is more than the disk has free: 1000000\.0 GiB beside/, 0, '1000000GiB'],
];

for (const [name, found, code, maxBytes = '64MiB'] of stores) {
  test(`a store of ${maxBytes} at ${name}: exit code ${code}, and nothing is created`, async (t) => {
    const folder = temporaryFolder(t);
    writeFileSync(join(folder, 'file'), '');
    const node = await fakeNode(t, {});
    const store = `cache:\n  store: { path: "${join(folder, name)}", maxBytes: ${maxBytes} }\n`;
    const file = configFile(t, `upstreams:\n  - { name: n0, url: "${node.url}" }\n${store}`);

    const { code: ended, out } = await call(['check', file]);

    const text = out.slice(out.indexOf('\n\n') + 2).replaceAll(file, 'F');
    assert.equal(ended, code);
    if (typeof found === 'string') assert.equal(text, found);
    else assert.match(text, found);
    assert.deepEqual(readdirSync(folder), ['file']);
  });
}

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
