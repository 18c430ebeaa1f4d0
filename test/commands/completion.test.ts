// Completion of shells: bash by its own machinery, the others by the words of their scripts.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { configSchema } from '../../src/config/schema/schema.ts';
import { flags } from '../../src/commands/flags.ts';
import { commands } from '../../src/commands/run-command.ts';
import { call } from './command-line.ts';

/** The proposals of bash for the last of these words. */
async function proposals(...words: readonly string[]): Promise<readonly string[]> {
  const { out } = await call(['completion', 'bash']);
  const ask = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ledgergate; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr, status } = spawnSync('bash', ['-c', `${out}\n${ask}`, 'bash', 'ledgergate', ...words], {
    encoding: 'utf8',
  });
  assert.deepEqual([status, stderr], [0, '']);
  return stdout.split('\n').filter((word) => word !== '');
}

test('bash completes commands, flags, actions and values', async () => {
  assert.deepEqual(await proposals('s'), ['serve', 'sample', 'status']);
  assert.deepEqual(await proposals('status', '--f'), ['--format']);
  assert.deepEqual(await proposals('status', '--format', ''), ['text', 'json']);
  assert.deepEqual(await proposals('serve', '--log-level', 'w'), ['warn']);
  assert.deepEqual(await proposals('keys', ''), ['create', 'list', 'revoke']);
  assert.deepEqual(await proposals('completion', ''), ['bash', 'zsh', 'fish']);
  assert.deepEqual(await proposals('help', 'dr'), ['drain']);
  // Nothing of its own: the shell proposes files.
  assert.deepEqual(await proposals('serve', ''), []);
  assert.deepEqual(await proposals('serve', '--config', ''), []);
});

for (const shell of ['bash', 'zsh', 'fish']) {
  test(`the script for ${shell} has every command with each of its flags`, async () => {
    const { code, out } = await call(['completion', shell]);

    assert.equal(code, 0);
    // A shell that is not installed gives no status.
    const { status, stderr } = spawnSync(shell, ['-n', '-c', out], { encoding: 'utf8' });
    assert.ok(status === null || status === 0, stderr);
    for (const command of commands) {
      assert.match(out, new RegExp(`\\b${command.name}\\b`));
      for (const flag of command.flags) {
        const pattern = shell === 'fish' ? `from ${command.name}' -l ${flag} ` : `${command.name}\\)[^;]*--${flag}\\b`;
        assert.match(out, new RegExp(pattern), `${command.name} --${flag}`);
      }
    }
  });
}

test('a shell proposes the words that the config takes', () => {
  const { dialect, log } = configSchema.parse({ upstreams: [{ name: 'a', url: 'http://a' }] });
  const words: Readonly<Record<string, string>> = { dialect, 'log-level': log.level, 'log-format': log.format };
  for (const [flag, word] of Object.entries(words)) {
    const { proposed } = flags[flag as 'dialect'];
    assert.ok((proposed as readonly string[]).includes(word), flag);
    for (const one of proposed) {
      const file = flag === 'dialect' ? { dialect: one } : { log: { [flag.slice(4)]: one } };
      assert.ok(configSchema.safeParse({ upstreams: [{ name: 'a', url: 'http://a' }], ...file }).success, one);
    }
  }
});
