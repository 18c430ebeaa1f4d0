/** A real Prometheus for a test, and its tool. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './free-port.ts';
import { temporaryFolder } from './temporary-folder.ts';

const isInstalled = ['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0);
if (!isInstalled && process.env['CI'] !== undefined) throw new Error('prometheus and promtool are required in CI');

/** For `test(name, { skip: noPrometheus }, ...)`. */
export const noPrometheus: string | false = isInstalled ? false : 'prometheus is not installed';

/** What `promtool check metrics` finds in a classic text; empty where all is well. */
export function lintMetrics(text: string): string {
  const { status, stderr, stdout } = spawnSync('promtool', ['check', 'metrics'], { input: text, encoding: 'utf8' });
  return status === 0 ? stderr : `${status}: ${stdout}${stderr}`;
}

export interface Prometheus {
  /** Answers of its API, `data` only. */
  query(path: string, parameters: Readonly<Record<string, string>>): Promise<unknown>;
  /** Resolves when the API answers this with a list that is not empty. */
  until(path: string, parameters: Readonly<Record<string, string>>): Promise<readonly unknown[]>;
  /** Why the last scrape failed; empty where it went well. */
  scrapeError(): Promise<string>;
}

/** One that scrapes `url` at this interval and keeps exemplars. It ends with the test. */
export async function prometheus(t: TestContext, url: string, every = '250ms'): Promise<Prometheus> {
  const { host, pathname } = new URL(url);
  const job = { job_name: 'ledgergate', metrics_path: pathname, static_configs: [{ targets: [host] }] };
  const config = { global: { scrape_interval: every, scrape_timeout: every }, scrape_configs: [job] };
  // JSON is YAML.
  return prometheusOn(t, JSON.stringify(config));
}

/** The last characters of its errors that a failure prints: some lines. */
const longestErrors = 2_000;

/** One on a config in YAML. `until` rejects with its last errors once it has ended. It ends with the test. */
export async function prometheusOn(t: TestContext, config: string): Promise<Prometheus> {
  const folder = temporaryFolder(t);
  writeFileSync(join(folder, 'prometheus.yml'), config);
  const port = await freePort();
  const child = spawn(
    'prometheus',
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--enable-feature=exemplar-storage',
      '--log.level=error',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let lastErrors = '';
  child.stderr
    .setEncoding('utf8')
    .on('data', (text: string) => (lastErrors = (lastErrors + text).slice(-longestErrors)));
  let isOver = false;
  child.once('close', () => (isOver = true));
  t.after(async () => {
    if (child.exitCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  const query = async (path: string, parameters: Readonly<Record<string, string>>): Promise<unknown> => {
    const asked = await fetch(`http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(parameters).toString()}`);
    const { data, error } = (await asked.json()) as { readonly data?: unknown; readonly error?: string };
    if (error !== undefined) throw new Error(error);
    return data;
  };
  return {
    query,
    async until(path, parameters) {
      for (;;) {
        if (isOver) throw new Error(`prometheus has ended: ${lastErrors}`);
        const found = listOf(await query(path, parameters).catch(() => undefined));
        if (found.length > 0) return found;
        await sleep(50);
      }
    },
    async scrapeError() {
      const { activeTargets } = (await query('targets', {})) as {
        readonly activeTargets: readonly { readonly lastError: string }[];
      };
      return activeTargets.map(({ lastError }) => lastError).join('\n');
    },
  };
}

function listOf(data: unknown): readonly unknown[] {
  if (Array.isArray(data)) return data;
  return (data as { readonly result?: readonly unknown[] } | undefined)?.result ?? [];
}
