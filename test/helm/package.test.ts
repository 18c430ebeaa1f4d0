/** The chart as it is handed out, and the pod of `helm test` as it runs. */
import assert from 'node:assert/strict';
import { execFile, execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { call } from '../commands/command-line.ts';
import { fakeNode } from '../support/fake-node.ts';
import { gatewayProcess } from '../support/gateway-process.ts';
import { keysFile, testKey } from '../support/keys.ts';
import { chartFolder, only, own, render, runHelm, withoutHelm, type KubernetesObject } from '../support/helm.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const skip = withoutHelm();

test('helm package makes an archive that renders as the folder does, without the values of tests', { skip }, (t) => {
  const folder = temporaryFolder(t);

  const { code, err } = runHelm(['package', chartFolder, '--destination', folder]);

  assert.equal(code, 0, err);
  const [archive = ''] = readdirSync(folder);
  assert.match(archive, /^ledgergate-\d+\.\d+\.\d+\.tgz$/);
  const files = execFileSync('tar', ['-tzf', join(folder, archive)], { encoding: 'utf8' });
  assert.match(files, /^ledgergate\/live-keys\.yaml$/m);
  assert.doesNotMatch(files, /\/ci\//);
  assert.deepEqual(render({ chart: join(folder, archive), ci: 'full' }), render({ ci: 'full' }));
});

interface Container {
  readonly args: readonly string[];
}

function containers(objects: readonly KubernetesObject[]): readonly [Container, Container] {
  return only(objects, 'Pod').spec.containers;
}

/** The exit code of the client's container, sent to another address. */
function ask({ args }: Container, url: string): Promise<number | null> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, ['-e', args[0] ?? '', url, args[2] ?? ''], () => resolve(child.exitCode));
  });
}

test('the containers of helm test distinguish a ready gateway from one that is not', { skip }, async (t) => {
  const objects = render();
  const [operations, client] = containers(objects);
  const name = own(objects, 'Service').metadata.name;
  const node = await fakeNode(t, { head: 900n });
  const gateway = await gatewayProcess(t, { full: [node] });

  assert.deepEqual(operations.args, ['health', `http://${name}-operations:9090`]);
  assert.equal(client.args[1], `http://${name}:80/v1`);
  assert.equal((await call(['health', gateway.operationsUrl])).code, 0);
  assert.equal(await ask(client, gateway.url), 0);
  await gateway.kill();
  assert.equal((await call(['health', gateway.operationsUrl])).code, 1);
  assert.equal(await ask(client, gateway.url), 1);
});

test('helm test takes 401 for a sign of life only where keys are asked for', { skip }, async (t) => {
  const [, open] = containers(render());
  const [, closed] = containers(render({ ci: 'access' }));
  const node = await fakeNode(t, {});
  const keys = { file: keysFile(t, [testKey('wallet')]).path };
  const gateway = await gatewayProcess(t, { full: [node], config: { access: { keys, plans: { free: {} } } } });

  assert.deepEqual([open.args[2], closed.args[2]], ['open', 'closed']);
  assert.deepEqual([await ask(open, gateway.url), await ask(closed, gateway.url)], [1, 0]);
});
