/** The sections of RESULTS.md that a command writes itself. */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const file = fileURLToPath(new URL('../RESULTS.md', import.meta.url));
const counts = '\n## Counts, not times\n';

/** Puts `text` below the heading, in place of what stands there; a new section comes before the counts. */
export function writeSection(heading: string, text: string): void {
  const results = readFileSync(file, 'utf8');
  const section = `\n## ${heading}\n\n${text.trim()}\n`;
  const from = results.indexOf(`\n## ${heading}\n`);
  const [start, end] = from < 0 ? [results.indexOf(counts), results.indexOf(counts)] : [from, endOf(results, from)];
  writeFileSync(file, results.slice(0, start) + section + results.slice(end));
}

function endOf(results: string, from: number): number {
  const next = results.indexOf('\n## ', from + 1);
  return next < 0 ? results.length : next;
}
