/**
 * The short table of the README. Its lines are kept in a file, so that a run of some parts leaves the others' as they
 * are; the README has them between two marks.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { table } from './report.ts';

export interface ShortLine {
  readonly what: string;
  readonly beside: string;
  readonly figure: string;
}

interface KeptLine extends ShortLine {
  /** Whose line it is. */
  readonly part: string;
}

const lines = fileURLToPath(new URL('../short.json', import.meta.url));
const readme = fileURLToPath(new URL('../../README.md', import.meta.url));
const [begin, end] = ['<!-- bench: begin -->\n', '<!-- bench: end -->\n'];

/** Puts a part's lines in the place of those it had, and the whole table into the README. */
export function writeShortLines(part: string, short: readonly ShortLine[]): void {
  const kept = readLines();
  const at = kept.findIndex((line) => line.part === part);
  const others = kept.filter((line) => line.part !== part);
  others.splice(at < 0 ? others.length : at, 0, ...short.map((line) => ({ part, ...line })));
  writeFileSync(lines, `${JSON.stringify(others, null, 2)}\n`);
  writeFileSync(readme, withTable(readFileSync(readme, 'utf8')));
}

/** The README with the table as the kept lines have it. */
export function withTable(text: string): string {
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`README.md has no ${begin.trim()} and ${end.trim()}`);
  const rows = readLines().map(({ what, beside, figure }) => [what, beside, figure]);
  return `${text.slice(0, from)}${begin}\n${table(['what', 'beside', ''], rows, 2)}\n${text.slice(to)}`;
}

function readLines(): readonly KeptLine[] {
  return JSON.parse(readFileSync(lines, 'utf8')) as readonly KeptLine[];
}
