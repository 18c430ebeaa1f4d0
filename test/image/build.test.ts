/** The commands of `docker build` run in a clean folder, and the files of the image serve. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { test } from 'node:test';
import {
  buildStages,
  dockerfile,
  installMs,
  isOffline,
  parseStages,
  root,
  temporaryFolder,
  wordsOf,
} from '../support/dockerfile.ts';
import { assertRuns } from '../support/runs.ts';

const timeout = installMs;

test(
  'the image builds from a clean folder, holds what is needed to run and no more, and serves',
  { timeout },
  async (t) => {
    const stages = parseStages(dockerfile);
    const final = stages.at(-1);
    assert.ok(final !== undefined);
    let built;
    try {
      built = buildStages(stages, temporaryFolder('image')).get(final.name);
    } catch (error) {
      if (!isOffline(error)) throw error;
      t.skip('NOT BUILT: npm cannot reach its registry');
      return;
    }
    assert.ok(built !== undefined);
    const { folder, workdir } = built;
    const inImage = (path: string): string => join(folder, path);
    const modules = join(workdir, 'node_modules');

    assert.deepEqual(readdirSync(workdir).sort(), ['LICENSE', 'bin', 'dist', 'node_modules', 'package.json']);
    const { dependencies, devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies)) assert.ok(existsSync(join(modules, name)), name);
    const needed: Record<string, { dev?: boolean }> = JSON.parse(
      readFileSync(join(root, 'package-lock.json'), 'utf8'),
    ).packages;
    for (const name of Object.keys(devDependencies)) {
      assert.equal(existsSync(join(modules, name)), needed[`node_modules/${name}`]?.dev !== true, name);
    }
    const [, script = ''] = wordsOf(final, 'ENTRYPOINT');
    const [, healthScript = '', ...command] = wordsOf(final, 'HEALTHCHECK');
    await assertRuns(t, {
      node: process.execPath,
      script: inImage(script),
      health: [inImage(healthScript), ...command],
      cwd: workdir,
    });
  },
);
