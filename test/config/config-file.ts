import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoadedConfig, loadConfig, type LoadOptions } from '../../src/config/source/load.ts';
import { ConfigError } from '../../src/config/source/problem.ts';
import { type Ending, temporaryFolder } from '../support/temporary-folder.ts';

/** Writes `text` to a file that is deleted after the test. */
export function configFile(t: Ending, text: string): string {
  const file = join(temporaryFolder(t), 'ledgergate.yaml');
  writeFileSync(file, text);
  return file;
}

export function loadText(t: Ending, text: string, options: LoadOptions = {}): LoadedConfig {
  return loadConfig({ ...options, file: configFile(t, text) });
}

/** The printed problems, with `F` for the name of the file. */
export function problemsOf(t: Ending, text: string, options: LoadOptions = {}): readonly string[] {
  const file = configFile(t, text);
  try {
    loadConfig({ ...options, file });
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map((problem) => ConfigError.format(problem).replaceAll(file, 'F'));
  }
}

/** A valid fleet in one line, so that other lines can be counted. */
export const oneUpstream = 'upstreams: [{ name: a, url: "http://10.0.0.1/v1" }]\n';
