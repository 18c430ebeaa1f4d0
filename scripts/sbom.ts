/**
 * Writes what the package is made of, as CycloneDX, by `npm sbom`: `npm run sbom [FILE]`, by default
 * ledgergate.cdx.json. `npm sbom --omit=dev` in the checkout itself leaves out what development needs as well as the
 * gateway (yaml, for example), and takes the folder's name for the package's: so it is run where there is no development.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';

type Manifest = Readonly<Record<string, unknown>>;

interface Lock {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean } & Manifest>>;
}

const read = (name: string): unknown => JSON.parse(readFileSync(new URL(`../${name}`, import.meta.url), 'utf8'));

function withoutDevelopment(manifest: Manifest): Manifest {
  const { devDependencies: _, ...rest } = manifest;
  return rest;
}

/** The document, for the versions of the lock file. */
export function sbom(): string {
  const folder = mkdtempSync(join(tmpdir(), 'ledgergate-sbom-'));
  try {
    const root = join(folder, 'ledgergate');
    mkdirSync(root);
    const lock = read('package-lock.json') as Lock;
    const kept = Object.entries(lock.packages).filter(([, { dev }]) => dev !== true);
    const packages = kept.map(([path, entry]) => [path, path === '' ? withoutDevelopment(entry) : entry] as const);
    const write = (name: string, content: unknown): void => writeFileSync(join(root, name), JSON.stringify(content));
    write('package.json', withoutDevelopment(read('package.json') as Manifest));
    write('package-lock.json', { ...lock, packages: Object.fromEntries(packages) });
    const args = [
      'sbom',
      '--package-lock-only',
      '--sbom-format=cyclonedx',
      '--sbom-type=application',
      '--loglevel=error',
    ];
    return execFileSync('npm', args, { cwd: root, encoding: 'utf8', timeout: 60_000 });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

if (import.meta.main) writeFileSync(resolve(process.argv[2] ?? 'ledgergate.cdx.json'), sbom());
