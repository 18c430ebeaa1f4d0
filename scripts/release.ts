/**
 * Steps of a release:
 *
 *     node scripts/release.ts prepare 1.2.3      sets the version everywhere, and dates the changelogs
 *     node scripts/release.ts notes v1.2.3       checks that all versions are the tag's; prints its changes
 *     node scripts/release.ts origin URL         names the forge's repository and image, before packing
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';

/** Where the version stands: the pattern's first group is ahead of it, the second is the version. */
const places: readonly (readonly [file: string, pattern: RegExp])[] = [
  ['package.json', /^( {2}"version": ")([^"]+)/m],
  ['package-lock.json', /^( {2}"version": ")([^"]+)/m],
  ['package-lock.json', /("": \{\s+"name": "ledgergate",\s+"version": ")([^"]+)/],
  ['helm/ledgergate/Chart.yaml', /^(version: )(\S+)/m],
  ['helm/ledgergate/Chart.yaml', /^(appVersion: )(\S+)/m],
  ['Dockerfile', /^(ARG VERSION=)(\S+)/m],
];

const changelogs: readonly string[] = ['CHANGELOG.md', 'helm/ledgergate/CHANGELOG.md'];

/** Sets `version` in the files of `folder`; the unreleased changes become its own, of `day` (ISO 8601). */
export function prepare(folder: string, version: string, day: string): void {
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Error(`expected a version such as 1.2.3, got ${version}`);
  for (const [file, pattern] of places) edit(folder, file, pattern, `$1${version}`);
  for (const file of changelogs) edit(folder, file, /^## Unreleased$/m, `## Unreleased\n\n## ${version} (${day})`);
}

/** The changes of the version that `tag` names (`v1.2.3`). Throws unless every file in `folder` has that version. */
export function notes(folder: string, tag: string): string {
  const version = tag.replace(/^v/, '');
  for (const [file, pattern] of places) {
    const found = pattern.exec(read(folder, file))?.[2];
    if (found !== version) throw new Error(`${file} has the version ${found}, and the tag is ${tag}`);
  }
  const [, ...sections] = read(folder, 'CHANGELOG.md').split(/^## /m);
  const own = sections.find((section) => section.startsWith(`${version} (`));
  if (own === undefined) throw new Error(`CHANGELOG.md has no section ${version}`);
  return own.slice(own.indexOf('\n')).trim();
}

/** Names the repository at `url`: npm's provenance demands it of the package, and the chart gets the image beside it. */
export function setOrigin(folder: string, url: string): void {
  const { host, pathname } = new URL(url);
  const manifest = JSON.parse(read(folder, 'package.json')) as Readonly<Record<string, unknown>>;
  const origin = {
    repository: { type: 'git', url: `git+${url}.git` },
    homepage: `${url}#readme`,
    bugs: `${url}/issues`,
  };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify({ ...manifest, ...origin }, null, 2)}\n`);
  const registry = host === 'github.com' ? 'ghcr.io' : host;
  const values = 'helm/ledgergate/values.yaml';
  edit(folder, values, /^( {2}registry: )''$/m, `$1${registry}`);
  edit(folder, values, /^( {2}repository: )ledgergate$/m, `$1${pathname.slice(1).toLowerCase()}`);
}

function read(folder: string, file: string): string {
  return readFileSync(join(folder, file), 'utf8');
}

function edit(folder: string, file: string, pattern: RegExp, replacement: string): void {
  const text = read(folder, file);
  if (!pattern.test(text)) throw new Error(`${file} has nothing like ${String(pattern)}`);
  writeFileSync(join(folder, file), text.replace(pattern, replacement));
}

if (import.meta.main) {
  const [step, value = ''] = process.argv.slice(2);
  const folder = process.cwd();
  if (step === 'prepare') prepare(folder, value, new Date().toISOString().slice(0, 10));
  else if (step === 'notes') process.stdout.write(`${notes(folder, value)}\n`);
  else if (step === 'origin') setOrigin(folder, value);
  else throw new Error('expected prepare VERSION, notes TAG or origin URL');
}
