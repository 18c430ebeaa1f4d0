/** The shipped dashboard, and its expressions as Grafana sends them. */
import { readFileSync } from 'node:fs';
import { dashboardFile } from './rule-files.ts';

export interface DashboardPanel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly h: number; readonly w: number; readonly x: number; readonly y: number };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string; readonly thresholds?: object } };
  readonly targets?: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
}

export interface Dashboard {
  readonly schemaVersion: number;
  readonly templating: { readonly list: readonly { readonly name: string; readonly multi?: boolean }[] };
  readonly panels: readonly DashboardPanel[];
}

export const dashboard = JSON.parse(readFileSync(dashboardFile, 'utf8')) as Dashboard;

/** Values of the variables that are not `All`. */
export type Chosen = Readonly<Record<string, string>>;

/**
 * The expressions with `chosen` values, `All` for the others; `interval` in place of what Grafana makes of the scrape interval
 * and the width of the screen.
 */
export function dashboardExpressions(
  interval: string,
  chosen: Chosen = {},
): readonly { readonly title: string; readonly expr: string }[] {
  const names = dashboard.templating.list.map(({ name }) => name).join('|');
  const variable = new RegExp(`\\$(${names})\\b`, 'g');
  return dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({
      title,
      expr: expr
        .replaceAll('$__rate_interval', interval)
        .replaceAll(variable, (_, name: string) => chosen[name] ?? '.*'),
    })),
  );
}
