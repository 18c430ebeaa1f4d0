import assert from 'node:assert/strict';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { ConfigError, loadConfig } from '../../../src/config/index.ts';
import { interpolate } from '../../../src/config/source/yaml-source.ts';
import { configFile, loadText, problemsOf } from '../config-file.ts';

test('${NAME} is the variable, $${ is a literal ${', () => {
  const env = { HOST: 'node', EMPTY: '', OTHER: '${HOST}' };
  const table = {
    'http://${HOST}/v1': 'http://node/v1',
    '${HOST}${HOST}': 'nodenode',
    '[${EMPTY}]': '[]',
    '${OTHER}': '${HOST}',
    '$${HOST}': '${HOST}',
    '$HOST {HOST} $ {HOST}': '$HOST {HOST} $ {HOST}',
  };
  for (const [text, value] of Object.entries(table)) {
    assert.deepEqual(
      { value: interpolate(text, { env }).value, faults: interpolate(text, { env }).faults },
      { value, faults: [] },
    );
  }
});

test('faults name the variable', () => {
  const table = {
    '${NOPE}': 'the environment variable NOPE is not set',
    '${constructor}': 'the environment variable constructor is not set',
    '${A:-b}': '"A:-b" is not the name of an environment variable',
    '${}': '"" is not the name of an environment variable',
    '${NOPE': '"${NOPE" has no closing brace (write $${ for a literal ${)',
  };
  for (const [text, fault] of Object.entries(table))
    assert.deepEqual(interpolate(text, { env: {} }).faults, [fault], text);
});

test('a missing variable is reported with its place and path, once', (t) => {
  const text = 'upstreams:\n  - name: ${NAME}\n    url: "http://${HOST}/${HOST2}"\n';

  assert.deepEqual(problemsOf(t, text), [
    'F:2:11: upstreams[0].name: the environment variable NAME is not set',
    'F:3:10: upstreams[0].url: the environment variable HOST is not set',
    'F:3:10: upstreams[0].url: the environment variable HOST2 is not set',
  ]);
});

test('an unquoted variable with a number is a number, a quoted one is text', (t) => {
  const fleet = 'upstreams: [{ name: a, url: "http://n/v1" }]\n';
  const env = { PORT: '7000', OFF: 'false', KEY: '12' };
  const { config } = loadText(t, `${fleet}listen:\n  port: \${PORT}\nencode:\n  enabled: \${OFF}\n`, { env });

  assert.equal(config.listen.port, 7000);
  assert.equal(config.encode.enabled, false);
  assert.deepEqual(problemsOf(t, `${fleet}listen:\n  port: "\${PORT}"\n`, { env }), [
    'F:3:9: listen.port: expected a whole number from 0 to 65535, got "${PORT}"',
  ]);
});

test('no message quotes the value of a variable', (t) => {
  const text = 'upstreams: [{ name: "${SECRET}", url: "${SECRET}", tier: "${SECRET}" }]\nworkers: "${SECRET}"\n';

  const problems = problemsOf(t, text, { env: { SECRET: 'hunter 2' } });

  assert.equal(problems.length, 4);
  assert.ok(!problems.join('\n').includes('hunter'), problems.join('\n'));
});

const keyed = (secret: string) =>
  `upstreams:\n  - { name: a, url: "http://n/v1", headers: { Authorization: "Bearer \${file:${secret}}" } }\n`;

test('${file:NAME} is the contents of a file, relative to the config, without the final line break', (t) => {
  const file = configFile(t, '');
  const folder = dirname(file);
  mkdirSync(join(folder, 'keys'));
  const table = { 'k-1': 'k-1', 'k-1\n': 'k-1', 'k-1\r\n': 'k-1', 'a b': 'a b', '${HOME}': '${HOME}', '12': '12' };
  for (const [contents, value] of Object.entries(table)) {
    writeFileSync(join(folder, 'keys/node'), contents);
    for (const name of ['keys/node', join(folder, 'keys/node')]) {
      writeFileSync(file, keyed(name));
      const { config, redacted } = loadConfig({ file });
      assert.equal(config.upstreams[0]?.headers?.['authorization'], `Bearer ${value}`);
      assert.equal(redacted.upstreams[0]?.headers?.['Authorization'], `Bearer \${file:${name}}`);
    }
  }
});

test('a secret of digits alone stays text, unquoted as well', (t) => {
  const file = configFile(t, '');
  writeFileSync(join(dirname(file), 'token'), '1234567890123456\n');
  writeFileSync(file, 'upstreams: [{ name: a, url: "http://n/v1" }]\noperations:\n  token: ${file:token}\n');
  assert.equal(loadConfig({ file }).config.operations.token, '1234567890123456');
});

test('faults of a secret file name the file and quote nothing of it', (t) => {
  const file = configFile(t, '');
  const at = (name: string): string => join(dirname(file), name);
  mkdirSync(at('folder'));
  const hush = 'hush'.repeat(16_384);
  writeFileSync(at('long'), `${hush}!`);
  writeFileSync(at('binary'), Buffer.from([0x68, 0x75, 0x73, 0x68, 0xff]));
  writeFileSync(at('lines'), 'hush\nhush');
  writeFileSync(at('empty'), '');
  const wrong = 'must be visible ASCII characters, such as "Bearer ${NODE_KEY}"';
  const table = {
    gone: `cannot read ${at('gone')}: there is no such file`,
    folder: `cannot read ${at('folder')}: it is no regular file`,
    '/dev/zero': 'cannot read /dev/zero: it is no regular file',
    long: `${at('long')} has more than 64 KiB`,
    // It reports a size of 0, and has megabytes.
    ...(existsSync('/proc/kallsyms') && { '/proc/kallsyms': '/proc/kallsyms has more than 64 KiB' }),
    binary: `${at('binary')} is not text in UTF-8`,
    lines: wrong,
    empty: wrong,
  };
  for (const [name, fault] of Object.entries(table)) {
    writeFileSync(file, keyed(name));
    const refused = (error: unknown): boolean => {
      assert.ok(error instanceof ConfigError);
      assert.deepEqual(
        error.problems.map(({ path, message }) => [ConfigError.formatPath(path), message]),
        [['upstreams[0].headers.Authorization', fault]],
        name,
      );
      assert.doesNotMatch(error.message, /hush/);
      return true;
    };
    assert.throws(() => loadConfig({ file }), refused);
  }
});

test('a password in an address of Redis has its special characters encoded', (t) => {
  const file = configFile(t, '');
  const secret = join(dirname(file), 'password');
  const text =
    'upstreams: [{ name: a, url: "http://n/v1" }]\ncache: { redis: { url: "redis://u:${file:password}@r:1/2" } }';
  writeFileSync(file, text);
  writeFileSync(secret, 'a%2Fb%40c');
  assert.deepEqual(loadConfig({ file }).config.cache.redis?.target, {
    kind: 'single',
    url: 'redis://u:a%2Fb%40c@r:1/2',
  });
  for (const password of ['12/hush', 'hush/b', 'a?hush', 'a#hush', 'a/b?hush@c']) {
    writeFileSync(secret, password);
    assert.throws(
      () => loadConfig({ file }),
      (error) =>
        error instanceof ConfigError &&
        /^\S+: cache\.redis\.url: must be an address/.test(error.message) &&
        !error.message.includes('hush'),
      password,
    );
  }
});
