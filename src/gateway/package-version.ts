import { readFileSync } from 'node:fs';

/** The version in package.json, which is two folders up from here in the sources and in `dist` alike. */
export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
