/** The commands of `docker build` run in a clean folder, and the files of the image serve. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { after, before, test, type TestContext } from 'node:test';
import { validate } from 'dockerfile-utils';
import { start } from '../commands/command-line.ts';
import {
  buildStages,
  dockerfile,
  installMs,
  isOffline,
  parseStages,
  root,
  wordsOf,
  type Built,
  contextPaths,
  parseCopy,
} from '../support/dockerfile.ts';
import { fakeNode } from '../support/fake-node.ts';
import { assertRuns } from '../support/runs.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const stages = parseStages(dockerfile);
const final = stages.at(-1);
assert.ok(final !== undefined);
const stageFolder = temporaryFolder({ after });
let built: Built | undefined;

before(
  () => {
    try {
      built = buildStages(stages, stageFolder).get(final.name);
    } catch (error) {
      if (!isOffline(error)) throw error;
    }
  },
  { timeout: installMs },
);

/** A test of the built image; skipped without a registry. */
function imageTest(title: string, run: (t: TestContext, image: Built) => void | Promise<void>): void {
  test(title, async (t) => {
    if (built === undefined) t.skip('NOT BUILT: npm cannot reach its registry');
    else await run(t, built);
  });
}

imageTest('the image holds the packages that run, and none of development', (_t, { workdir }) => {
  const modules = join(workdir, 'node_modules');

  assert.deepEqual(readdirSync(workdir).sort(), ['LICENSE', 'bin', 'dist', 'docs', 'node_modules', 'package.json']);
  const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const name of Object.keys(dependencies)) assert.ok(existsSync(join(modules, name)), name);
  const needed: Record<string, { dev?: boolean }> = JSON.parse(
    readFileSync(join(root, 'package-lock.json'), 'utf8'),
  ).packages;
  for (const name of Object.keys(devDependencies)) {
    assert.equal(existsSync(join(modules, name)), needed[`node_modules/${name}`]?.dev !== true, name);
  }
});

imageTest('its packages are without types, maps, documents and tests; licences are there', (_t, { workdir }) => {
  const found = globSync('node_modules/**/{*.{ts,cts,mts,map,md},test/,tests/,docs/,examples/}', { cwd: workdir });
  const bytes = readdirSync(workdir, { recursive: true, encoding: 'utf8' })
    .map((name) => statSync(join(workdir, name)))
    .reduce((sum, { blocks }) => sum + blocks * 512, 0);
  const licences = globSync('node_modules/{@*/*,[!@]*}/{LICEN[CS]E,NOTICE,licen[cs]e,notice}*', { cwd: root });
  const owed = licences.filter((name) => existsSync(join(workdir, name, '../package.json')));

  assert.deepEqual(
    found.filter((name) => !/licen[cs]e|notice/i.test(name)),
    [],
  );
  assert.ok(bytes < 21_000_000, `${bytes} bytes on disk`);
  assert.ok(owed.length > 40);
  for (const name of owed) assert.ok(existsSync(join(workdir, name)), name);
});

imageTest('it serves, exports traces, is healthy, and ends when asked to', async (t, { folder, workdir }) => {
  const inImage = (path: string): string => join(folder, path);
  const [, script = ''] = wordsOf(final, 'ENTRYPOINT');
  const [, healthScript = '', ...command] = wordsOf(final, 'HEALTHCHECK');

  await assertRuns(t, {
    node: process.execPath,
    script: inImage(script),
    health: [inImage(healthScript), ...command],
    cwd: workdir,
  });
});

imageTest('environment variables alone start it, reachable from other containers', async (t, { folder }) => {
  const node = await fakeNode(t, { dialect: 'aptos', head: 900n });
  const [, script = ''] = wordsOf(final, 'ENTRYPOINT');
  const env = {
    LEDGERGATE_UPSTREAM: node.url,
    LEDGERGATE_DIALECT: 'aptos',
    LEDGERGATE_PORT: '0',
    LEDGERGATE_OPERATIONS_HOST: '0.0.0.0',
    LEDGERGATE_OPERATIONS_PORT: '0',
  };
  const gateway = start(t, [], { script: join(folder, script), env });
  const [, base = ''] = await gateway.line(/^Clients: +(\S+) \(listening on 0\.0\.0\.0, /);
  const [, operations = ''] = await gateway.line(/^Operations: +(\S+) \(listening on 0\.0\.0\.0, /);

  const [reply, metrics] = [await fetch(base), await fetch(`${operations}/metrics`)];
  gateway.process.kill('SIGTERM');

  assert.equal(reply.headers.get('x-aptos-ledger-version'), '900');
  assert.equal(metrics.status, 200);
  assert.equal((await gateway.ended).code, 0);
});

// The Dockerfile meets the rules for an image of a public service.

const [builds, runs] = stages;
const json = (name: string) => JSON.parse(readFileSync(join(root, name), 'utf8'));

test('the linter has nothing against it', () => {
  assert.deepEqual(validate(dockerfile), []);
});

test('base images are pinned by digest, and the Node that builds is the locked one', () => {
  for (const { image } of stages) assert.match(image, /@sha256:[0-9a-f]{64}$/);
  assert.equal(
    /^node:(\d+\.\d+\.\d+)-/.exec(builds?.image ?? '')?.[1],
    json('package-lock.json').packages['node_modules/node'].version,
  );
  assert.match(runs?.image ?? '', /^gcr\.io\/distroless\/nodejs26-/);
});

test('the image runs as an unprivileged user, in production, and its build runs no program', () => {
  assert.ok(runs !== undefined);
  assert.deepEqual(wordsOf(runs, 'USER'), ['65532:65532']);
  assert.deepEqual(wordsOf(runs, 'ENV'), ['NODE_ENV=production']);
  assert.deepEqual(wordsOf(runs, 'EXPOSE'), ['8080', '9090']);
  assert.ok(runs.instructions.every(({ name }) => name !== 'RUN' && name !== 'ADD'));
});

test('the health check and the start are without a shell, which the image has not got', () => {
  assert.ok(runs !== undefined);
  const program = ['/nodejs/bin/node', '/app/bin/ledgergate.js'];

  assert.deepEqual(wordsOf(runs, 'ENTRYPOINT'), program);
  assert.deepEqual(wordsOf(runs, 'HEALTHCHECK'), [...program, 'health']);
});

test('labels name the product and its version', () => {
  const labels = runs?.instructions.find(({ name }) => name === 'LABEL')?.rest ?? '';

  for (const label of ['title', 'description', 'licenses', 'version', 'revision', 'created', 'base.name']) {
    assert.ok(labels.includes(`org.opencontainers.image.${label}=`), label);
  }
  assert.ok(dockerfile.includes(`ARG VERSION=${json('package.json').version}\n`));
  assert.ok(runs?.image.startsWith(`${/base\.name="([^"]+)"/.exec(labels)?.[1]}@`));
});

test('the context is what is copied, and no more', () => {
  const copied = stages.flatMap(({ instructions }) => {
    const copies = instructions.filter(({ name }) => name === 'COPY').map(({ rest }) => parseCopy(rest));
    return copies.filter(({ from }) => from === undefined).flatMap(({ sources }) => sources);
  });

  assert.deepEqual([...new Set(copied)].sort(), [...contextPaths()].sort());
  for (const path of copied) assert.ok(existsSync(join(root, path)), path);
});
