import assert from 'node:assert/strict';
import { test } from 'node:test';
import { interpolate } from '../../../src/config/source/yaml-source.ts';
import { loadText, problemsOf } from '../config-file.ts';

test('${NAME} is the variable, $${ is a literal ${', () => {
  const env = { HOST: 'node', EMPTY: '' };
  const table = {
    'http://${HOST}/v1': 'http://node/v1',
    '${HOST}${HOST}': 'nodenode',
    '[${EMPTY}]': '[]',
    '$${HOST}': '${HOST}',
    '$HOST {HOST} $ {HOST}': '$HOST {HOST} $ {HOST}',
  };
  for (const [text, value] of Object.entries(table)) {
    assert.deepEqual(
      { value: interpolate(text, env).value, faults: interpolate(text, env).faults },
      { value, faults: [] },
    );
  }
});

test('the value of a variable is not interpolated again', () => {
  assert.equal(interpolate('${A}', { A: '${B}', B: 'x' }).value, '${B}');
});

test('faults name the variable', () => {
  const table = {
    '${NOPE}': 'the environment variable NOPE is not set',
    '${constructor}': 'the environment variable constructor is not set',
    '${A:-b}': '"A:-b" is not the name of an environment variable',
    '${}': '"" is not the name of an environment variable',
    '${NOPE': '"${NOPE" has no closing brace (write $${ for a literal ${)',
  };
  for (const [text, fault] of Object.entries(table)) assert.deepEqual(interpolate(text, {}).faults, [fault], text);
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
