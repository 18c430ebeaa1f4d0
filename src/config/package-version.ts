import { readFileSync } from 'node:fs';

/** The version in package.json, two folders up both in `src` and in `dist`. */
export function packageVersion(): string {
  const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}
