/**
 * The answer to a scrape: the text format of Prometheus, or OpenMetrics 1.0 with exemplars where a scrape prefers it.
 * Both have the same series with the same labels. Pure.
 */
import type { FamilyData, Sample } from './family.ts';

type Form = 'text' | 'openmetrics';

/** Content type of an answer to a scrape, by form. */
export const contentTypes: Readonly<Record<Form, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
};

/** The families in the form that the header `accept` prefers. */
export function expose(families: readonly FamilyData[], accept: string | undefined) {
  const form = formOf(accept);
  return { contentType: contentTypes[form], text: write(families, form) };
}

/** OpenMetrics where the header lists it with a weight not below `text/plain`. */
export function formOf(accept = ''): Form {
  const offered = accept.split(',').map(parseRange);
  const weightOf = (type: string): number =>
    Math.max(0, ...offered.flatMap((range) => (range.type === type && range.isFit ? [range.weight] : [])));
  const openMetrics = weightOf('application/openmetrics-text');
  return openMetrics > 0 && openMetrics >= weightOf('text/plain') ? 'openmetrics' : 'text';
}

/** `isFit`: the version is supported. */
function parseRange(range: string): { readonly type: string; readonly weight: number; readonly isFit: boolean } {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
  const valueOf = (name: string): string | undefined =>
    parameters.find((parameter) => parameter.startsWith(`${name}=`))?.slice(name.length + 1);
  const weight = Number(valueOf('q') ?? '1');
  const version = valueOf('version');
  const isFit = type !== 'application/openmetrics-text' || version === undefined || version.startsWith('1.');
  return { type, weight: Number.isNaN(weight) ? 0 : weight, isFit };
}

function write(families: readonly FamilyData[], form: Form): string {
  const lines = families.flatMap((family) => linesOf(family, form));
  if (form === 'openmetrics') lines.push('# EOF');
  return `${lines.join('\n')}\n`;
}

function linesOf({ name, help, type, values }: FamilyData, form: Form): string[] {
  const isOpenMetrics = form === 'openmetrics';
  // OpenMetrics names a counter's family without the suffix of its samples.
  const family = isOpenMetrics && type === 'counter' ? name.replace(/_total$/, '') : name;
  const sample = isOpenMetrics && type === 'counter' ? `${family}_total` : name;
  const described = isOpenMetrics ? escapeValue(help) : escapeText(help);
  const head = [`# HELP ${family} ${described}`, `# TYPE ${family} ${type}`];
  return [...head, ...values.map((value) => lineOf(sample, value, isOpenMetrics))];
}

function lineOf(name: string, { metricName = name, labels, value, exemplar }: Sample, isOpenMetrics: boolean): string {
  const line = `${metricName}${labelText(labels)} ${numberText(value)}`;
  if (!isOpenMetrics || exemplar === undefined || exemplar === null) return line;
  return `${line} # ${labelText(exemplar.labels)} ${numberText(exemplar.value)} ${exemplar.timestamp.toFixed(3)}`;
}

function labelText(labels: Sample['labels']): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${valueText(name, value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

/** Bounds are spelled alike in both forms, so that another scraper continues the same series. */
function valueText(name: string, value: string | number): string {
  return name === 'le' && typeof value === 'number' ? boundText(value) : escapeValue(String(value));
}

function boundText(bound: number): string {
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound);
}

function numberText(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? '+Inf' : '-Inf';
}

function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

function escapeValue(text: string): string {
  return escapeText(text).replaceAll('"', '\\"');
}
