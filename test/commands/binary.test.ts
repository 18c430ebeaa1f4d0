import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { configFile } from '../config/config-file.ts';
import { binary, start } from './command-line.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('exit codes are those of the contract: 0 fine, 2 bad usage, 2 bad config', async (t) => {
  const version = await start(t, ['--version']).ended;
  const usage = await start(t, ['serv']).ended;
  const file = configFile(t, 'dialekt: aptos\n');
  const config = await start(t, ['serve', '--config', file]).ended;

  assert.match(version.out, /^\d+\.\d+\.\d+\n$/);
  assert.equal(version.code, 0);
  assert.deepEqual(usage, { code: 2, out: '', err: 'ledgergate: unknown command "serv" (did you mean "serve"?)\n' });
  assert.deepEqual(config, {
    code: 2,
    out: '',
    err: `${file}:1:1: upstreams: is required\n${file}:1:1: dialekt: unknown key (did you mean "dialect"?)\n`,
  });
});

test('an old Node gets one line that names the required version', async (t) => {
  const old = findOldNode();
  if (old === undefined) {
    t.skip('there is no Node below 22.19 on this machine');
    return;
  }

  const { code, out, err } = await start(t, ['--version'], { node: old }).ended;

  assert.deepEqual({ code, out }, { code: 2, out: '' });
  assert.match(err, /^ledgergate needs Node 22\.19 or newer, and this is Node \d+\.\d+\.\d+ .*\n$/);
});

test('an installed package has no sources and runs what was built', async (t) => {
  const folder = temporaryFolder(t);
  cpSync(dirname(binary), join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  mkdirSync(join(folder, 'dist'));
  writeFileSync(join(folder, 'dist', 'main.js'), 'console.log("built", ...process.argv.slice(2));');
  // A link like npm's: the program must find its own folder, not that of the link.
  const link = join(folder, 'ledgergate');
  symlinkSync(join(folder, 'bin', 'ledgergate.js'), link);

  const { code, out } = await start(t, ['check', 'x'], { script: link }).ended;

  assert.deepEqual({ code, out }, { code: 0, out: 'built check x\n' });
});

/** A Node on the PATH that is too old for the gateway. */
function findOldNode(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders
    .map((folder) => join(folder, 'node'))
    .find((node) => {
      try {
        const version = execFileSync(node, ['--version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        const [major = 0, minor = 0] = version.slice(1).split('.').map(Number);
        return major < 22 || (major === 22 && minor < 19);
      } catch {
        return false;
      }
    });
}
