/** A wall clock for gateways in processes of their own, moved by a test. */
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { putFile, temporaryFolder } from './temporary-folder.ts';

/** `env`: variables of the gateways' environment. `set`: moves it to a time, from which on it runs. */
export function givenClock(t: TestContext, start: string) {
  const file = join(temporaryFolder(t), 'moved-by-ms');
  const set = (text: string): void => putFile(file, String(Date.parse(text) - Date.now()));
  set(start);
  const preload = new URL('moved-clock.ts', import.meta.url).href;
  return { env: { LEDGERGATE_TEST_CLOCK: file, NODE_OPTIONS: `--import=${preload}` }, set };
}
