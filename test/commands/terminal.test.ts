/** A person starts a gateway on a terminal. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { configFile } from '../config/config-file.ts';
import { until } from '../support/eventually.ts';
import { fakeNode } from '../support/fake-node.ts';
import { noPty, onPty } from '../support/pty.ts';

const cwd = fileURLToPath(new URL('../..', import.meta.url));
const freePorts = '--host 127.0.0.1 --port 0 --operations-port 0';
const isGone = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => false,
    () => true,
  );

test('Ctrl-C on npm start finishes what is in flight', { skip: noPty }, async (t) => {
  const node = await fakeNode(t, {});
  const terminal = onPty(t, `npm start -- serve --upstream ${node.url} ${freePorts}`, { cwd });
  const [, base = ''] = await terminal.output(/^Clients: +(\S+) /m);
  const release = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: release.promise }, { when: ({ url }) => url.includes('/accounts/') });
  const reply = fetch(`${base}/accounts/0x1`, { headers: { connection: 'close' } });
  await node.log.next(({ url }) => url.includes('/accounts/'));

  terminal.type('\x03');
  await terminal.output(/^(?:\^C)?Stopping/m);
  release.resolve();

  assert.equal((await reply).status, 200);
  await until(() => isGone(base));
});

for (const workers of [1, 2]) {
  test(
    `a gateway of npm start ends with its terminal (workers: ${workers}), which shows the log as text`,
    { skip: noPty },
    async (t) => {
      const node = await fakeNode(t, {});
      node.faults.add({ kind: 'unavailable' });
      const file = configFile(t, `workers: ${workers}\nupstreams: [{ name: a, url: "${node.url}" }]\n`);
      const terminal = onPty(t, `npm start -- serve ${file} ${freePorts}`, { cwd });
      const [, base = ''] = await terminal.output(/^Clients: +(\S+) /m);
      const [, operations = ''] = await terminal.output(/^Operations: +(\S+) /m);
      await terminal.output(/^\d\d:\d\d:\d\d\.\d{3} WARN {2}upstream is down {2}(?:worker=\d {2})?upstream=a {2}/m);

      terminal.close();

      await until(() => isGone(base));
      await until(() => isGone(operations));
    },
  );
}
