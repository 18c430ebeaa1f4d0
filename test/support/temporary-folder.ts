/** A folder for the files of one test, files in it, and the end of what a test has started. */
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Ends what was started: a test's context, or `{ after }` of node:test for what all tests of a file share. */
export interface Ending {
  after(end: () => unknown): void;
}

/** An empty folder, which goes with its content after the test. */
export function temporaryFolder(t: Ending): string {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Puts a file in the place of the one before, whole, as renewals and editors do. */
export function putFile(file: string, content: string | Buffer): void {
  writeFileSync(`${file}.new`, content);
  renameSync(`${file}.new`, file);
}
