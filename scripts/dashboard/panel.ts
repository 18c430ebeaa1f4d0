/** What a panel of the dashboard is, in as few words as possible, and what Grafana makes of it. */

export interface Panel {
  readonly title: string;
  /** What it shows, and what to make of it. */
  readonly description: string;
  /** Grafana's name of the unit. */
  readonly unit: string;
  /** Legends by expression; `$on` in an expression stands for the replicas that are chosen. */
  readonly series: Readonly<Record<string, string>>;
  readonly kind?: 'graph' | 'stacked' | 'stat' | 'states';
  /** Of the 24 columns. */
  readonly width?: number;
  /** Values from which on it is yellow and red; of which `low` ones are the bad ones. */
  readonly warn?: number;
  readonly bad?: number;
  readonly low?: boolean;
  readonly max?: number;
  /** Words for values. */
  readonly words?: Readonly<Record<string, { readonly text: string; readonly color: string }>>;
}

export interface Row {
  readonly title: string;
  readonly panels: readonly Panel[];
}

export interface Place {
  readonly h: number;
  readonly w: number;
  readonly x: number;
  readonly y: number;
}

export const datasource = { type: 'prometheus', uid: '${datasource}' } as const;

export const heightOf = ({ kind }: Panel): number => (kind === 'stat' ? 4 : 8);

export function grafanaPanel(panel: Panel, id: number, gridPos: Place): object {
  const { title, description, kind = 'graph', unit } = panel;
  const type = { graph: 'timeseries', stacked: 'timeseries', stat: 'stat', states: 'state-timeline' }[kind];
  return {
    id,
    type,
    title,
    description,
    datasource,
    gridPos,
    fieldConfig: {
      defaults: {
        unit,
        // What has not happened yet has no series.
        noValue: '0',
        ...(kind === 'graph' || kind === 'stacked' ? { min: 0 } : {}),
        ...(panel.max === undefined ? {} : { max: panel.max }),
        ...(panel.words === undefined ? {} : { mappings: [{ type: 'value', options: panel.words }] }),
        color: { mode: kind === 'stat' || kind === 'states' ? 'thresholds' : 'palette-classic' },
        thresholds: { mode: 'absolute', steps: stepsOf(panel) },
        custom: customOf(kind, panel),
      },
      overrides: [],
    },
    options: optionsOf(kind),
    targets: Object.entries(panel.series).map(([expr, legend], index) => target(panel, { expr, legend, index })),
  };
}

interface Line {
  readonly expr: string;
  readonly legend: string;
  readonly index: number;
}

function target({ kind }: Panel, { expr, legend, index }: Line): object {
  const isNow = kind === 'stat';
  return {
    refId: String.fromCodePoint(65 + index),
    datasource,
    expr: expr.replaceAll('$on', 'job=~"$job",instance=~"$instance"'),
    legendFormat: legend,
    instant: isNow,
    range: !isNow,
  };
}

function stepsOf({ warn, bad, low = false }: Panel): readonly object[] {
  const first = { color: low && bad !== undefined ? 'red' : 'green', value: null };
  if (!low) {
    return [
      first,
      ...(warn === undefined ? [] : [{ color: 'yellow', value: warn }]),
      ...(bad === undefined ? [] : [{ color: 'red', value: bad }]),
    ];
  }
  return [
    first,
    ...(bad === undefined ? [] : [{ color: 'yellow', value: bad }]),
    ...(warn === undefined ? [] : [{ color: 'green', value: warn }]),
  ];
}

function customOf(kind: NonNullable<Panel['kind']>, { warn, bad }: Panel): object {
  if (kind === 'stat') return {};
  if (kind === 'states') return { fillOpacity: 80, lineWidth: 0 };
  const isStacked = kind === 'stacked';
  return {
    drawStyle: 'line',
    lineWidth: 1,
    fillOpacity: isStacked ? 60 : 5,
    showPoints: 'never',
    stacking: { mode: isStacked ? 'normal' : 'none', group: 'A' },
    thresholdsStyle: { mode: warn === undefined && bad === undefined ? 'off' : 'dashed' },
  };
}

function optionsOf(kind: NonNullable<Panel['kind']>): object {
  if (kind === 'stat') {
    return { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: 'value', graphMode: 'none', textMode: 'auto' };
  }
  if (kind === 'states') return { mergeValues: true, showValue: 'never', legend: { showLegend: true } };
  return {
    legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
    tooltip: { mode: 'multi', sort: 'desc' },
  };
}
