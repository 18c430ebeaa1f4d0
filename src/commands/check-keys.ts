/** Whether the keys that a config names can be used: asked before anything is started, as of the config itself. */
import type { Config } from '../config/config.ts';
import { keysFileWarnings, parseKeysFile } from '../config/keys-file.ts';
import { readText } from '../config/text-file.ts';

/** Reads the keys file of the config, if it names one. Returns warnings, throws ConfigError. */
export function checkKeysFile({ access }: Config): readonly string[] {
  const file = access?.keys.file;
  if (access === undefined || file === undefined) return [];
  return keysFileWarnings(file, parseKeysFile(readText(file), file, new Set(Object.keys(access.plans))));
}
