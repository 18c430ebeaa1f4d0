/** The folder of a run's files, removed with it; in memory where the system has such a place. */
import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

let folder: string | undefined;
let made = 0;

/** A new folder that every user can write to, because servers change their user. */
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
