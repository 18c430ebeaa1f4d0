/** A folder for the files of one test, and the end of what a test has started. */
import { mkdtempSync, rmSync } from 'node:fs';
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
