import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatLogLine } from '../../../src/gateway/log/log-text.ts';

const head = '"pid":7,"hostname":"h"';
const time = 1_795_394_353_404;
/** The line without its time of day, which depends on the zone. */
const text = (json: string): string => {
  const line = formatLogLine(json);
  assert.match(line, /^\d\d:\d\d:\d\d\.\d{3} [^\n]*\n$/);
  return line.slice('12:00:00.000 '.length, -1);
};

test('a line is level, event and fields, without the process', () => {
  const line = `{"level":40,"time":${time},${head},"upstream":"a","tries":3,"window":{"oldest":5},"cause":"connect ECONNREFUSED 10.0.0.1:80","msg":"upstream is down"}\n`;

  assert.match(formatLogLine(line), /:\d\d:13\.404 WARN /);
  assert.equal(
    text(line),
    'WARN  upstream is down  upstream=a  tries=3  window={"oldest":5}  cause="connect ECONNREFUSED 10.0.0.1:80"',
  );
});

test('versions above 2^53 stay exact', () => {
  const line = `{"level":30,"time":${time},${head},"head":18446744073709551615,"msg":"m"}\n`;

  assert.equal(text(line), 'INFO  m  head=18446744073709551615');
});

test('a text that a node chose cannot steer the terminal', () => {
  const hostile = JSON.stringify('\u001b[2J\u009b2J\u202e\u007f\n');
  const line = `{"level":50,"time":${time},${head},"cause":${hostile},"msg":${hostile}}\n`;

  const escaped = String.raw`\u001b[2J\u009b2J\u202e\u007f`;
  assert.equal(text(line), String.raw`ERROR ${escaped}\u000a  cause="${escaped}\n"`);
});

test('the level alone is painted', () => {
  const line = `{"level":40,"time":${time},${head},"msg":"m"}\n`;

  assert.match(
    formatLogLine(line, (word, level) => `<${word}:${level}>`),
    / <WARN :40> m\n$/,
  );
});
