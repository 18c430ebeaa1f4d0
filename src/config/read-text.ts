/** A file as text, or why it cannot be read. */
import { readFileSync } from 'node:fs';
import { ConfigError } from './problem.ts';

/** Throws ConfigError when it cannot be read. */
export function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error';
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EISDIR' ? 'it is a folder' : code;
    throw new ConfigError([{ where: { kind: 'nowhere' }, path: [], message: `cannot read ${file}: ${why}` }]);
  }
}
