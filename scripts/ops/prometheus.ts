/** A real Prometheus on rule files of ours, and what is asked of it. */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../test/support/free-port.ts';
import type { CleanUp } from './clean-up.ts';

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  /** Pairs of a time in seconds and a value as text. */
  readonly values: readonly (readonly [number, string])[];
}

export interface PrometheusOptions {
  /** `host:port` of what is scraped. */
  readonly target: string;
  /** Texts by name of file. */
  readonly rules: Readonly<Record<string, string>>;
}

export interface Prometheus {
  readonly url: string;
  readonly startedAt: number;
  /** Alerts that fire now, by name, with the labels that distinguish them. */
  firing(): Promise<ReadonlyMap<string, readonly Readonly<Record<string, string>>[]>>;
  /** From the start until now, every second. */
  history(query: string): Promise<readonly Series[]>;
}

/** Scrapes and evaluates once a second. Resolves when it has scraped. */
export async function startPrometheus(cleanUp: CleanUp, { target, rules }: PrometheusOptions): Promise<Prometheus> {
  const folder = cleanUp.folder();
  for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, name), text);
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: Object.keys(rules),
    scrape_configs: [{ job_name: 'wallet-gateway', static_configs: [{ targets: [target] }] }],
  };
  // JSON is YAML.
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config));
  const port = await freePort();
  const child = cleanUp.spawn('prometheus', [
    `--config.file=${join(folder, 'prometheus.yml')}`,
    `--storage.tsdb.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--log.level=warn',
  ]);
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (printed += String(chunk)));
  const failed = Promise.race([
    once(child, 'exit').then(([code]) => `ended with ${String(code)}`),
    once(child, 'error').then(([error]) => String(error)),
  ]).then((how): never => {
    throw new Error(`prometheus ${how}:\n${printed}`);
  });
  failed.catch(() => undefined);
  const url = `http://127.0.0.1:${port}`;
  const startedAt = Date.now() / 1000;
  const ask = async (path: string, params: Readonly<Record<string, string>> = {}): Promise<unknown> => {
    const response = await fetch(`${url}/api/v1/${path}`, {
      method: path === 'alerts' ? 'GET' : 'POST',
      ...(path === 'alerts' ? {} : { body: new URLSearchParams(params) }),
      signal: AbortSignal.timeout(10_000),
    });
    const { status, data, error } = (await response.json()) as { status: string; data: unknown; error?: string };
    if (status !== 'success') throw new Error(`prometheus: ${error}: ${params['query']}`);
    return data;
  };
  const prometheus: Prometheus = {
    url,
    startedAt,
    async firing() {
      interface Alerts {
        readonly alerts: readonly { readonly state: string; readonly labels: Readonly<Record<string, string>> }[];
      }
      const { alerts } = (await ask('alerts')) as Alerts;
      const labels = alerts.filter(({ state }) => state === 'firing').map((alert) => alert.labels);
      return Map.groupBy(labels, ({ alertname = '' }) => alertname);
    },
    async history(query) {
      const range = { start: String(startedAt), end: String(Date.now() / 1000), step: '1' };
      return ((await ask('query_range', { query, ...range })) as { result: readonly Series[] }).result;
    },
  };
  const isScraped = async (): Promise<boolean> => {
    for (const until = Date.now() + 20_000; Date.now() < until; await sleep(100)) {
      const up = await prometheus.history('up == 1').catch(() => []);
      if (up.length > 0) return true;
    }
    throw new Error(`prometheus has not scraped ${target} within 20 s:\n${printed}`);
  };
  await Promise.race([isScraped(), failed]);
  return prometheus;
}
