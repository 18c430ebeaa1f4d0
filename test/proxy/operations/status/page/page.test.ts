import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { html } from '../../../../../src/proxy/operations/status/page/html.ts';
import { pagePolicy, statusPage } from '../../../../../src/proxy/operations/status/page/page.ts';
import { statusLines } from '../../../../../src/proxy/operations/status/terminal.ts';
import * as format from '../../../../../src/proxy/operations/status/format.ts';
import { factsFrom, nodeStatus } from '../../../../support/process-status.ts';

const hostile = `<img src=x onerror="alert(1)">'&\u001b[2J\u202e`;

const hostileFacts = factsFrom(
  {
    nodes: [nodeStatus({ name: hostile, ejected: [{ readClass: hostile, reason: hostile }] })],
    redis: { trouble: hostile },
    distrusted: [hostile],
    disagreements: [{ upstreams: [hostile, hostile], count: 1, lost: {}, last: hostile }],
    events: [{ atMs: 0, kind: 'encode mismatch', fields: { functionId: hostile, upstream: hostile } }],
  },
  { version: hostile },
);

test('data from outside is text on the page', () => {
  const page = statusPage(hostileFacts);
  assert.doesNotMatch(page, /<img/);
  assert.doesNotMatch(page, /onerror="/);
  assert.match(page, /&lt;img src=x onerror=&quot;alert\(1\)&quot;&gt;&#39;&amp;/);
});

test('data from outside is text in a terminal', () => {
  const lines = statusLines(JSON.stringify(hostileFacts)) ?? [];
  assert.doesNotMatch(lines.join(''), /[\p{Cc}\p{Cf}]/u);
  assert.ok(lines.some((line) => line.includes('<img src=x')));
});

test('escaping covers what ends a text or a quoted attribute', () => {
  assert.equal(
    html`<p title="${`"'<>&`}">${[html`<b>${'<'}</b>`, undefined, 3]}</p>`.text,
    '<p title="&quot;&#39;&lt;&gt;&amp;"><b>&lt;</b>3</p>',
  );
});

test('the policy allows this script and this style by hash, and nothing else', () => {
  const page = statusPage(factsFrom());
  for (const [, name, text = ''] of page.matchAll(/<(script|style)>(.*?)<\/\1>/gs)) {
    const digest = createHash('sha256').update(text).digest('base64');
    assert.ok(pagePolicy.includes(`${name}-src 'sha256-${digest}'`), name);
  }
  assert.match(pagePolicy, /^default-src 'none'; /);
  assert.doesNotMatch(pagePolicy, /unsafe/);
  // Neither attributes with styles nor anything from elsewhere.
  assert.doesNotMatch(page, / style=| on\w+=|https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
});

test('the page renders before any report', () => {
  const nothing = { head: undefined, oldest: undefined };
  const node = nodeStatus({ ...nothing, state: 'unproven', lag: undefined, edgeMargin: undefined });
  const page = statusPage(factsFrom({ ...nothing, isReady: false, chainId: undefined, nodes: [node] }));
  assert.match(page, /No node has reported its window yet/);
  assert.match(page, /unproven/);
});

test('numbers are formatted for people', () => {
  const { bytes, duration, milliseconds, percent, perSecond, short } = format;
  assert.deepEqual([0, 999, 1_000, 12_345, 4_000_000, 3.4e9].map(short), ['0', '999', '1k', '12k', '4M', '3.4G']);
  assert.deepEqual([undefined, 0, 0.5, 0.99999, 1].map(percent), ['–', '0 %', '50.0 %', '99.9 %', '100 %']);
  assert.equal([undefined, 0.05, 4.26, 120, 1_500].map(milliseconds).join(), '–,0.05 ms,4.3 ms,120 ms,1.5 s');
  assert.deepEqual([0, 59, 61, 3_600, 90_061].map(duration), ['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
  assert.deepEqual([10, 2_048, 300 * 2 ** 20].map(bytes), ['10 B', '2.0 KiB', '300 MiB']);
  assert.deepEqual([0, 0.4, 12, 1_234].map(perSecond), ['0/s', '0.4/s', '12/s', '1.2k/s']);
});
