/** Assumptions of a PromQL expression: names of metrics, labels, and values of labels. */

export interface Selector {
  readonly name: string;
  readonly matchers: readonly { readonly label: string; readonly isPattern: boolean; readonly value: string }[];
}

/** Names of recording rules have a colon. Prometheus' own (`up`, `ALERTS`) are left out. */
export function selectorsIn(expr: string): readonly Selector[] {
  const found = expr.matchAll(/\b((?:ledgergate|process|nodejs)[_:][\w:]+)(?:\s*\{([^}]*)\})?/g);
  return [...found].map(([, name = '', inner = '']) => ({
    name,
    matchers: [...inner.matchAll(/(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g)].map(
      ([, label = '', operator = '', value = '']) => ({
        label,
        isPattern: operator.endsWith('~'),
        value,
      }),
    ),
  }));
}

/** Labels that results are grouped, joined or counted by. */
export function groupingLabelsIn(expr: string): readonly string[] {
  const lists = expr.matchAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([\w\s,]*)\)/g);
  return [...lists].flatMap(([, list = '']) => list.split(',').flatMap((label) => label.trim() || []));
}

/** Labels that texts show. */
export function shownLabelsIn(text: string): readonly string[] {
  return [...text.matchAll(/\{\{[^}]*?\$labels\.(\w+)|\{\{\s*(\w+)\s*\}\}/g)].map(
    ([, one, other]) => one ?? other ?? '',
  );
}

export interface Series {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The series of a classic text, split by hand. */
export function seriesIn(text: string): readonly Series[] {
  return [...text.matchAll(/^([a-z][\w:]*)(?:\{(.*)\})? (\S+)$/gim)].map(([, name = '', inner = '', value]) => {
    const pairs = inner.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
    const labels = Object.fromEntries([...pairs].map(([, label, text]) => [label, text]));
    return { name, labels, value: Number(value) };
  });
}

/** Values of labels by metric, from a scrape. */
export type Scrape = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

export function parseScrape(text: string): Scrape {
  const scrape = new Map<string, Map<string, Set<string>>>();
  for (const { name, labels } of seriesIn(text)) {
    const known = scrape.get(name) ?? new Map<string, Set<string>>();
    scrape.set(name, known);
    for (const [label, value] of Object.entries(labels))
      known.set(label, (known.get(label) ?? new Set<string>()).add(value));
  }
  return scrape;
}
