/** The report of `check`: lines for people, or JSON for programs. */
import { formatPath } from '../../config/source/key-path.ts';
import { formatProblem, type Problem } from '../../config/source/problem.ts';
import type { InspectedUpstream } from './inspect-fleet.ts';
import { formatTable } from '../text-table.ts';

/** Findings of one `check`. */
export interface CheckReport {
  readonly file: string | undefined;
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
  /** Missing when no upstream was asked. */
  readonly upstreams: readonly InspectedUpstream[] | undefined;
}

/** The report as lines of text. */
export function formatReport({ file, problems, warnings, upstreams }: CheckReport): string {
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return [
    ...(upstreams === undefined ? [] : [...upstreamTable(upstreams), '']),
    ...problems.map(formatProblem),
    ...warnings.map((warning) => `warning: ${warning}`),
    `${file === undefined ? '' : `${file}: `}${problems.length === 0 ? 'fine' : count}`,
  ].join('\n');
}

/** The report as one JSON object. */
export function jsonReport({ file, problems, warnings, upstreams }: CheckReport): string {
  const flat = problems.map(({ where, path, message }) => ({
    ...(where.kind === 'file' ? { file: where.file, line: where.line, column: where.column } : {}),
    ...(where.kind === 'setting' ? { setting: where.name } : {}),
    path: formatPath(path),
    message,
  }));
  const report = { file, fine: problems.length === 0, problems: flat, warnings, upstreams };
  // An absent value is null, not missing: programs find every key in every report.
  return JSON.stringify(report, (_key, value: unknown) => value ?? null, 2);
}

function upstreamTable(upstreams: readonly InspectedUpstream[]): readonly string[] {
  const rows = upstreams.map(({ name, url, tier, dialect, chainId, oldest, head, lag, reason, fault }) =>
    [
      name,
      url,
      tier,
      dialect,
      chainId,
      oldest,
      head,
      lag,
      reason ?? (fault === undefined ? 'fine' : 'several nodes'),
    ].map(cell),
  );
  return formatTable([['UPSTREAM', 'URL', 'TIER', 'DIALECT', 'CHAIN', 'OLDEST', 'HEAD', 'LAG', 'STATE'], ...rows]);
}

function cell(value: string | number | undefined): string {
  return value === undefined ? '-' : String(value);
}
