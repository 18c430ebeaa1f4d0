/** A log reader that stalls: the gateway goes on serving, its memory stays bounded, and SIGTERM ends it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { Pool } from 'undici';
import { binary, start } from '../../commands/command-line.ts';
import { configFile } from '../../config/config-file.ts';
import { fakeNode, type FakeNode } from '../../support/fake-node.ts';
import { fetchReply } from '../../support/gateway.ts';
import { watchStalls } from '../../support/stalls.ts';

const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=7';

test('a full pipe stops nothing: lines are lost and counted', async (t) => {
  const stalls = watchStalls(t);
  const node = await fakeNode(t);
  const file = configFile(t, JSON.stringify(loggingAll(node)));
  const child = spawn(process.execPath, [binary, 'serve', '--config', file]);
  t.after(() => child.kill('SIGKILL'));
  // The test does not read standard error.
  const { promise: listening, resolve } = Promise.withResolvers<readonly string[]>();
  const urls: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => {
    const url = /^(?:Clients|Operations): +(\S+) /.exec(line)?.[1];
    if (url !== undefined && urls.push(url) === 2) resolve(urls);
  });
  const [url = '', operationsUrl = ''] = await listening;
  const { origin, pathname } = new URL(url + probe.split('?')[0]);
  const pool = new Pool(origin, { connections: 16 });
  t.after(() => pool.close());
  let answered = 0;
  let slowestMs = 0;
  const ask = async (times: number): Promise<void> => {
    for (let index = 0; index < times; index += 1) {
      const startedMs = performance.now();
      const { statusCode, body } = await pool.request({ method: 'GET', path: `${pathname}?ledger_version=7` });
      await body.dump();
      slowestMs = Math.max(slowestMs, performance.now() - startedMs);
      if (statusCode === 200) answered += 1;
    }
  };
  const dropped = async (): Promise<number> => {
    const { text } = await fetchReply(`${operationsUrl}/metrics`, { method: 'GET' });
    return Number(/^ledgergate_log_lines_dropped_total (\d+)$/m.exec(text)?.[1]);
  };

  // Some 220 bytes each: pipes and buffers take one or two megabytes.
  let asked = 0;
  while ((await dropped()) === 0) {
    await Promise.all(Array.from({ length: 16 }, () => ask(125)));
    asked += 2_000;
    assert.ok(asked < 40_000, 'no line was lost');
  }
  const rssBefore = rss(child.pid);
  await Promise.all(Array.from({ length: 16 }, () => ask(125)));

  assert.equal(answered, asked + 2_000);
  stalls.judge(slowestMs < 2_000, `${slowestMs} ms`);
  assert.ok((await dropped()) > 1_900);
  assert.ok(rss(child.pid) - rssBefore < 64, 'what is lost takes no memory');
  child.kill('SIGTERM');
  const [code] = await once(child, 'exit');
  assert.equal(code, 0);
});

test('the last lines are written before the end', async (t) => {
  const node = await fakeNode(t);
  for (const workers of [1, 2]) {
    const running = start(t, ['serve', '--config', configFile(t, JSON.stringify({ ...loggingAll(node), workers }))]);
    const [, url = ''] = await running.line(/^Clients: +(\S+) /);
    await Promise.all(Array.from({ length: 100 }, () => fetchReply(url + probe, { method: 'GET' })));
    running.process.kill('SIGTERM');
    const { code, err } = await running.ended;
    assert.equal(code, 0);
    assert.equal(err.split('"msg":"answered"').length - 1, 100);
    const lines = err.split('\n').filter((line) => line !== '');
    for (const line of lines) assert.equal(typeof JSON.parse(line), 'object', line);
  }
});

/** A gateway that logs each request. */
function loggingAll({ url }: FakeNode): object {
  return {
    listen: { host: '127.0.0.1', port: 0 },
    operations: { host: '127.0.0.1', port: 0 },
    upstreams: [{ name: 'a', url }],
    log: { access: { share: 1 } },
  };
}

/** Resident memory in MB. */
function rss(pid: number | undefined): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
