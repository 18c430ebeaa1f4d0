/**
 * Breaks the pure decisions in every way of Stryker, one at a time, and counts the mutants that tests kill:
 * `npm run mutate [-- FILE...]`. Stryker is fetched by npx and is no dependency: it takes minutes, and no other script needs it.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { explained } from './mutants-explained.ts';

/** Each file of decisions, with the tests that have to notice when it is wrong. */
const decisions: Readonly<Record<string, readonly string[]>> = {
  'src/access/limits/cost.ts': ['test/access/limits/window.test.ts'],
  'src/access/keys/function-rights.ts': ['test/access/keys/principals.test.ts'],
  'src/access/keys/client-address.ts': ['test/access/keys/principals.test.ts'],
  'src/access/limits/window.ts': ['test/access/limits/window.test.ts'],
  'src/cache/epoch/epoch.ts': ['test/cache/epoch/epoch.test.ts'],
  'src/proxy/routes/canonical-body.ts': ['test/proxy/routes/view-body.test.ts', 'test/proxy/routes/target.test.ts'],
  'src/cache/key.ts': ['test/proxy/routes/keys.test.ts', 'test/cache/record.test.ts'],
  'src/cache/kinds.ts': ['test/cache/record.test.ts', 'test/proxy/reads/policy.test.ts', 'test/cache/purge.test.ts'],
  'src/cache/purge.ts': ['test/cache/purge.test.ts'],
  'src/proxy/reads/asked-content.ts': ['test/proxy/reads/asked-content.test.ts'],
  'src/proxy/reads/policy.ts': ['test/proxy/reads/policy.test.ts'],
  'src/ledger/json-skim.ts': ['test/ledger/json-skim.test.ts'],
  'src/ledger/json-value.ts': [
    'test/ledger/json-value.test.ts',
    'test/proxy/routes/view-body.test.ts',
    'test/fuzz/fuzz.test.ts',
  ],
  'src/ledger/lib/allowance.ts': ['test/ledger/lib/allowance.test.ts'],
  'src/ledger/lib/circuit.ts': ['test/ledger/lib/circuit.test.ts'],
  'src/ledger/lib/near-miss.ts': ['test/ledger/lib/near-miss.test.ts'],
  'src/ledger/version.ts': ['test/ledger/words.test.ts'],
  'src/ledger/lib/spans.ts': ['test/ledger/lib/spans.test.ts'],
  'src/proxy/http/negotiate.ts': ['test/proxy/http/negotiate.test.ts'],
  'src/proxy/http/target.ts': ['test/proxy/routes/target.test.ts'],
  'src/proxy/reads/demand.ts': ['test/proxy/reads/demand.test.ts'],
  'src/proxy/routes/target.ts': ['test/proxy/routes/target.test.ts'],
  'src/proxy/routes/parse-history.ts': ['test/proxy/routes/parsed-reads.test.ts'],
  'src/proxy/routes/parse-read.ts': ['test/proxy/routes/parsed-reads.test.ts', 'test/proxy/routes/target.test.ts'],
  'src/upstream/contradictions.ts': ['test/upstream/contradictions.test.ts'],
  'src/upstream/fleet-ledger.ts': ['test/upstream/fleet-state.test.ts'],
  'src/upstream/fleet-state.ts': ['test/upstream/fleet-facts.test.ts', 'test/upstream/fleet-state.test.ts'],
  'src/upstream/latest.ts': ['test/upstream/latest.test.ts'],
  'src/upstream/ledger-wide-headers.ts': ['test/upstream/ledger-wide-headers.test.ts'],
  'src/upstream/shared-states.ts': ['test/upstream/shared-states.test.ts'],
  'src/upstream/floors.ts': ['test/upstream/client-floors.test.ts', 'test/upstream/latest.test.ts'],
  'src/upstream/select/first-choice.ts': ['test/upstream/select/first-choice.test.ts'],
  'src/upstream/select/ranking.ts': ['test/upstream/select/pick.test.ts'],
  'src/upstream/node/circuits.ts': ['test/upstream/node/circuits.test.ts'],
  'src/upstream/node/ledger-identity.ts': ['test/upstream/node/ledger-identity.test.ts'],
  'src/upstream/node/limits.ts': ['test/upstream/node/limits.test.ts'],
  'src/upstream/node/shared-address.ts': ['test/upstream/node/shared-address.test.ts'],
  'src/upstream/node/retention-window.ts': [
    'test/upstream/node/retention-window.test.ts',
    'test/upstream/node/shared-address.test.ts',
  ],
  'src/upstream/select/pick.ts': ['test/upstream/select/pick.test.ts'],
  'src/upstream/dispatch/plan.ts': ['test/upstream/dispatch/plan.test.ts'],
  'src/upstream/dispatch/classify.ts': [
    'test/upstream/dispatch/classify.test.ts',
    'test/upstream/dispatch/validate.test.ts',
  ],
};

/** Percent of the mutants that have to be killed or explained. */
const leastScore = 95;
const stryker = '@stryker-mutator/core@9.6.1';
const folder = join('.stryker-tmp', 'run');
/** Ends a run with the first test that fails: it has killed the mutant. */
const reporter =
  'data:text/javascript,export default async function*(events){for await(const{type}of events)if(type===`test:fail`)process.exit(1)}';

interface Mutant {
  readonly status: string;
  readonly mutatorName: string;
  readonly replacement: string;
  readonly location: { readonly start: Place; readonly end: Place };
}

interface Place {
  readonly line: number;
  readonly column: number;
}

/** The mutants of one file, as Stryker reports them. */
function mutantsOf(file: string, tests: readonly string[]): readonly Mutant[] {
  const [config, report] = [join(folder, 'config.json'), join(folder, 'report.json')];
  writeFileSync(
    config,
    JSON.stringify({
      testRunner: 'command',
      commandRunner: {
        command: `node --test --test-isolation=none '--test-reporter=${reporter}' ${tests.join(' ')}`,
      },
      mutate: [file],
      // TypeScript 7 lacks the function that Stryker would rewrite it with; node runs the sources as they are.
      tsconfigFile: 'absent.json',
      symlinkNodeModules: true,
      concurrency: cpus().length,
      timeoutMS: 20_000,
      reporters: ['json'],
      jsonReporter: { fileName: report },
      ignorePatterns: ['/dist', '/coverage', '/bench', '/helm', '/.stryker-tmp'],
      allowEmpty: true,
    }),
  );
  execFileSync('npx', ['--yes', '-p', stryker, 'stryker', 'run', config, '--logLevel', 'error'], {
    stdio: 'inherit',
    // Each mutant is a process that loads the same modules.
    env: { ...process.env, NODE_COMPILE_CACHE: resolve(folder, 'compiled') },
  });
  const { files } = JSON.parse(readFileSync(report, 'utf8')) as Report;
  return files[file]?.mutants ?? [];
}

interface Report {
  readonly files: Readonly<Record<string, { readonly mutants: readonly Mutant[] }>>;
}

/** The mutated text and its replacement, on one line. */
function describe(source: readonly string[], { location: { start, end }, replacement }: Mutant): string {
  const lines = source.slice(start.line - 1, end.line);
  const last = lines.length - 1;
  const cut = lines.map((line, at) =>
    line.slice(at === 0 ? start.column - 1 : 0, at === last ? end.column - 1 : undefined),
  );
  return `${cut.join(' ')} => ${replacement}`.replaceAll(/\s+/g, ' ');
}

/** Whether the mutant, one of `all` of the file, is explained: a text alone explains no mutant where several have it. */
function isExplained(file: string, source: readonly string[], mutant: Mutant, all: readonly Mutant[]): boolean {
  const text = describe(source, mutant);
  const explanation = explained[file]?.[text];
  if (explanation === undefined) return false;
  if (typeof explanation === 'string') return all.every((one) => one === mutant || describe(source, one) !== text);
  return explanation.lines.includes(source[mutant.location.start.line - 1]?.trim() ?? '');
}

const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(decisions);
mkdirSync(folder, { recursive: true });
let isEnough = true;
for (const file of wanted) {
  const tests = decisions[file];
  const source = readFileSync(file, 'utf8').split('\n');
  if (tests === undefined) throw new Error(`no decisions are in ${file}`);
  const mutants = mutantsOf(file, tests).filter(({ status }) => status !== 'Ignored' && status !== 'CompileError');
  const alive = mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage');
  const open = alive.filter((mutant) => !isExplained(file, source, mutant, mutants));
  const score = (100 * (mutants.length - open.length)) / Math.max(1, mutants.length);
  isEnough &&= score >= leastScore;
  const counts = `${mutants.length} mutants, ${mutants.length - alive.length} killed, ${alive.length - open.length} explained`;
  process.stdout.write(`${file}: ${counts}, ${open.length} survive: ${score.toFixed(1)} %\n`);
  for (const mutant of open) process.stdout.write(`  ${mutant.location.start.line}: ${describe(source, mutant)}\n`);
}
rmSync(folder, { recursive: true });
if (!isEnough) process.exitCode = 1;
