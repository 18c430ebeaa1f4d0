/** What a run writes lies in a folder that goes with it, in memory where the system has a place for that. */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder: string | undefined;
let made = 0;

/** A new folder; everybody can write to it, because servers like to work as somebody else. */
export function newFolder(name: string): string {
  folder ??= create();
  const path = join(folder, `${name}-${(made += 1)}`);
  const mask = process.umask(0);
  mkdirSync(path, { mode: 0o777 });
  process.umask(mask);
  return path;
}

function create(): string {
  const path = mkdtempSync(join(memory() ?? tmpdir(), 'ledgergate-bench-'));
  process.once('exit', () => rmSync(path, { recursive: true, force: true, maxRetries: 3 }));
  return path;
}

function memory(): string | undefined {
  try {
    accessSync('/dev/shm', constants.W_OK);
    return '/dev/shm';
  } catch {
    return undefined;
  }
}
