/** A folder for the files of one test. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';

/** An empty folder, which goes with its content after the test. */
export function temporaryFolder(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-test-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
