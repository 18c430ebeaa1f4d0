/** The Dockerfile meets the rules for an image of a public service. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { validate } from 'dockerfile-utils';
import { contextPaths, dockerfile, parseCopy, parseStages, root, wordsOf } from '../support/dockerfile.ts';

const stages = parseStages(dockerfile);
const [build, final] = stages;
const json = (name: string) => JSON.parse(readFileSync(join(root, name), 'utf8'));

test('the linter has nothing against it', () => {
  assert.deepEqual(validate(dockerfile), []);
});

test('base images are pinned by digest, and the Node that builds is the locked one', () => {
  for (const { image } of stages) assert.match(image, /@sha256:[0-9a-f]{64}$/);
  assert.equal(
    /^node:(\d+\.\d+\.\d+)-/.exec(build?.image ?? '')?.[1],
    json('package-lock.json').packages['node_modules/node'].version,
  );
  assert.match(final?.image ?? '', /^gcr\.io\/distroless\/nodejs26-/);
});

test('the image runs as an unprivileged user, in production, and its build runs no program', () => {
  assert.ok(final !== undefined);
  assert.deepEqual(wordsOf(final, 'USER'), ['65532:65532']);
  assert.deepEqual(wordsOf(final, 'ENV'), ['NODE_ENV=production']);
  assert.deepEqual(wordsOf(final, 'EXPOSE'), ['8080', '9090']);
  assert.ok(final.instructions.every(({ name }) => name !== 'RUN' && name !== 'ADD'));
});

test('the health check and the start are without a shell, which the image has not got', () => {
  assert.ok(final !== undefined);
  const program = ['/nodejs/bin/node', '/app/bin/ledgergate.js'];

  assert.deepEqual(wordsOf(final, 'ENTRYPOINT'), program);
  assert.deepEqual(wordsOf(final, 'HEALTHCHECK'), [...program, 'health']);
});

test('labels name the product and its version', () => {
  const labels = final?.instructions.find(({ name }) => name === 'LABEL')?.rest ?? '';

  for (const label of ['title', 'description', 'licenses', 'version', 'revision', 'created', 'base.name']) {
    assert.ok(labels.includes(`org.opencontainers.image.${label}=`), label);
  }
  assert.ok(dockerfile.includes(`ARG VERSION=${json('package.json').version}\n`));
  assert.ok(final?.image.startsWith(`${/base\.name="([^"]+)"/.exec(labels)?.[1]}@`));
});

test('the context is what is copied, and no more', () => {
  const copied = stages.flatMap(({ instructions }) => {
    const copies = instructions.filter(({ name }) => name === 'COPY').map(({ rest }) => parseCopy(rest));
    return copies.filter(({ from }) => from === undefined).flatMap(({ sources }) => sources);
  });

  assert.deepEqual([...new Set(copied)].sort(), [...contextPaths()].sort());
  for (const path of copied) assert.ok(existsSync(join(root, path)), path);
});
