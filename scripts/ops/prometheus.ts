/** A real Prometheus on rule files of ours, its alerts, and its series. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { prometheusOn } from '../../test/support/prometheus.ts';
import type { CleanUp } from './clean-up.ts';

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  /** Pairs of a time in seconds and a value as text. */
  readonly values: readonly (readonly [number, string])[];
}

export type Prometheus = Awaited<ReturnType<typeof startPrometheus>>;

/** Scrapes `target` (`host:port`) and evaluates `rules` (texts by name of file) once a second; resolves when it has scraped. */
export async function startPrometheus(cleanUp: CleanUp, target: string, rules: Readonly<Record<string, string>>) {
  const folder = cleanUp.folder();
  for (const [name, text] of Object.entries(rules)) writeFileSync(join(folder, name), text);
  const config = {
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: Object.keys(rules).map((name) => join(folder, name)),
    scrape_configs: [{ job_name: 'wallet-gateway', static_configs: [{ targets: [target] }] }],
  };
  // JSON is YAML.
  const api = await prometheusOn(cleanUp.asTest, JSON.stringify(config));
  const start = String(Date.now() / 1000);
  const ended = new AbortController();
  const tooLong = sleep(20_000, undefined, { signal: ended.signal }).then(() => {
    throw new Error(`prometheus has not scraped ${target} within 20 s`);
  });
  await Promise.race([api.until('query', { query: 'up == 1' }), tooLong]);
  tooLong.catch(() => undefined);
  ended.abort();
  return {
    /** Alerts that fire now, by name, with the labels that distinguish them. */
    async firing() {
      interface Alerts {
        readonly alerts: readonly { readonly state: string; readonly labels: Readonly<Record<string, string>> }[];
      }
      const { alerts } = (await api.query('alerts', {})) as Alerts;
      const labels = alerts.filter(({ state }) => state === 'firing').map((alert) => alert.labels);
      return Map.groupBy(labels, ({ alertname = '' }) => alertname);
    },
    /** From the start until now, every second. */
    async history(query: string): Promise<readonly Series[]> {
      const range = { start, end: String(Date.now() / 1000), step: '1' };
      return ((await api.query('query_range', { query, ...range })) as { result: readonly Series[] }).result;
    },
  };
}
