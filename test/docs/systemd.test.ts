// examples/ledgergate.service, as systemd itself reads it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import { repository } from './snippets.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const unit = readFileSync(`${repository}examples/ledgergate.service`, 'utf8');
const checklist = readFileSync(`${repository}docs/production-checklist.md`, 'utf8');

/** Value of a setting that the unit has once. */
function valueOf(name: string): string {
  const values = [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value = '']) => value);
  assert.equal(values.length, 1, name);
  return values[0] ?? '';
}

// systemd is no part of the images that CI runs in.
const skip = spawnSync('systemd-analyze', ['--version']).status !== 0 && 'systemd-analyze is not installed';

test('systemd knows every setting, and the exposure of the service is small', { skip }, (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'ledgergate.service');
  // The command has to exist.
  writeFileSync(file, unit.replace('/usr/local/bin/ledgergate', process.execPath));
  const analyze = (...args: readonly string[]): readonly [number | null, string] => {
    const { status, stderr } = spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
    return [status, stderr];
  };

  assert.deepEqual(analyze('verify'), [0, '']);
  // In tenths: 1.5 of 10, where an unhardened service has 9.6.
  assert.deepEqual(analyze('security', '--offline=yes', '--threshold=15'), [0, '']);
});

test('signals, times and descriptors are those of the gateway', () => {
  assert.match(valueOf('ExecReload'), /^\/bin\/kill -HUP \$MAINPID$/);
  const drains = /(\d+) s from SIGTERM to SIGKILL \((\d+) s with workers\)/.exec(checklist) ?? [];
  const descriptors = /by default, with three nodes, ([\d,]+)\./.exec(checklist)?.[1]?.replaceAll(',', '');
  assert.ok(Number(valueOf('TimeoutStopSec')) > Math.max(Number(drains[1]), Number(drains[2])));
  assert.ok(Number(valueOf('LimitNOFILE')) > Number(descriptors));
  // The primary ends its workers; exit code 2 is a config that another start would refuse as well.
  assert.deepEqual([valueOf('KillMode'), valueOf('RestartPreventExitStatus')], ['mixed', '2']);
});
