import { formatPath, type KeyPath } from './key-path.ts';

/** A place in the file (line and column count from 1), or a flag or variable. */
export type Where =
  | { readonly kind: 'file'; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: 'setting'; readonly name: string }
  | { readonly kind: 'nowhere' };

/** A fault of the value at `path`. */
export interface Problem {
  readonly where: Where;
  readonly path: KeyPath;
  readonly message: string;
}

/** An invalid config; `problems`: all of them, in the order of the file. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    const sorted = [...problems].sort((left, right) => order(left.where) - order(right.where));
    super(sorted.map(formatProblem).join('\n'));
    this.problems = sorted;
  }
}

/** `file:line:column: key.path: message`, clickable in editors and terminals. */
export function formatProblem(problem: Problem): string {
  return [formatWhere(problem.where), formatPath(problem.path), problem.message]
    .filter((part) => part !== '')
    .join(': ');
}

function formatWhere(where: Where): string {
  switch (where.kind) {
    case 'file':
      return `${where.file}:${where.line}:${where.column}`;
    case 'setting':
      return where.name;
    case 'nowhere':
      return '';
  }
}

/** Whether both places are known and equal. */
export function isSamePlace(left: Where, right: Where): boolean {
  return left.kind !== 'nowhere' && formatWhere(left) === formatWhere(right);
}

function order(where: Where): number {
  return where.kind === 'file' ? where.line * 1e6 + where.column : 0;
}
