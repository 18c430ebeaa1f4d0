/** The whole dashboard: its rows laid out, and what it can be narrowed down by. */
import { datasource, grafanaPanel, heightOf, type Panel, type Row } from './panel.ts';

const columns = 24;

export function grafanaDashboard(rows: readonly Row[]): object {
  return {
    uid: 'ledgergate',
    title: 'Ledgergate',
    description: 'A caching read-through gateway in front of a fleet of ledger nodes.',
    tags: ['ledgergate'],
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    schemaVersion: 39,
    time: { from: 'now-3h', to: 'now' },
    timezone: 'browser',
    annotations: { list: [] },
    links: [],
    templating: {
      list: [
        { name: 'datasource', label: 'Data source', type: 'datasource', query: 'prometheus', current: {}, hide: 0 },
        choice('job', 'Job', 'label_values(ledgergate_build_info, job)'),
        choice('instance', 'Replica', 'label_values(ledgergate_build_info{job=~"$job"}, instance)'),
      ],
    },
    panels: laidOut(rows),
  };
}

function choice(name: string, label: string, query: string): object {
  return {
    name,
    label,
    type: 'query',
    datasource,
    query: { query, refId: name },
    definition: query,
    // At a change of the time range: replicas come and go.
    refresh: 2,
    sort: 1,
    multi: true,
    includeAll: true,
    allValue: '.*',
    current: { text: ['All'], value: ['$__all'] },
  };
}

function laidOut(rows: readonly Row[]): readonly object[] {
  const laid: object[] = [];
  let y = 0;
  for (const { title, panels } of rows) {
    laid.push({
      id: laid.length + 1,
      type: 'row',
      title,
      collapsed: false,
      gridPos: { h: 1, w: columns, x: 0, y },
      panels: [],
    });
    y += 1;
    for (const line of linesOf(panels)) {
      let x = 0;
      const h = Math.max(...line.map(heightOf));
      for (const panel of line) {
        const w = widthOf(panel);
        laid.push(grafanaPanel(panel, laid.length + 1, { h, w, x, y }));
        x += w;
      }
      y += h;
    }
  }
  return laid;
}

const widthOf = ({ width = 8 }: Panel): number => width;

/** As many beside each other as there is room for. */
function linesOf(panels: readonly Panel[]): readonly (readonly Panel[])[] {
  const lines: Panel[][] = [];
  let left = 0;
  for (const panel of panels) {
    const width = widthOf(panel);
    if (width > left) {
      lines.push([]);
      left = columns;
    }
    lines.at(-1)?.push(panel);
    left -= width;
  }
  return lines;
}
