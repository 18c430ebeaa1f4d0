/** Writes helm/ledgergate/files/dashboard.json from `dashboard/rows.ts`: `npm run generate`. */
import { writeFileSync } from 'node:fs';
import { format } from 'prettier';
import { grafanaDashboard } from './dashboard/dashboard.ts';
import { rows } from './dashboard/rows.ts';

export function dashboardJson(): Promise<string> {
  return format(JSON.stringify(grafanaDashboard(rows)), { parser: 'json', printWidth: 120 });
}

if (import.meta.main) {
  writeFileSync(new URL('../helm/ledgergate/files/dashboard.json', import.meta.url), await dashboardJson());
}
