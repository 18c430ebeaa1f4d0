/** Whether the keys that a config names can be used: asked before anything is started, as of the config itself. */
import type { Config } from '../config/config.ts';
import { parseKeysFile } from '../config/keys-file.ts';
import { readText } from '../config/read-text.ts';

/** Throws ConfigError. */
export function checkKeysFile({ access }: Config): void {
  const file = access?.keys.file;
  if (access !== undefined && file !== undefined)
    parseKeysFile(readText(file), file, new Set(Object.keys(access.plans)));
}
