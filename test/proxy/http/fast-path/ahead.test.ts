import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { until } from '../../../support/eventually.ts';
import { nodeAndGateway } from '../../../support/gateway.ts';

/** Requests that each need a node, 64 kB or more in total. */
function* requests(): Generator<string> {
  for (let version = 0; ; version += 1_000) {
    const targets = Array.from({ length: 1_000 }, (_, at) => `0x1/module/coin?ledger_version=${version + at}`);
    yield targets.map((target) => `GET /v1/accounts/${target} HTTP/1.1\r\nHost: a\r\n\r\n`).join('');
  }
}

test('an endless pipeline is read only as fast as it is answered', async (t) => {
  const { gateway } = await nodeAndGateway(t, { config: { listen: { fastPath: true } } }, { head: 1_000_000n });
  const client = connect(gateway.port, '127.0.0.1');
  t.after(() => client.destroy());
  let answers = 0;
  client.on('data', (chunk) => (answers += chunk.toString('latin1').split('HTTP/1.1 200 ').length - 1));
  const pieces = requests();
  const send = (): void => {
    while (client.write(pieces.next().value ?? ''));
  };
  client.on('drain', send);
  /** Bytes that the kernel or the gateway accepted. */
  const taken = (): number => client.bytesWritten - client.writableLength;

  send();
  await until(() => answers >= 20);
  const before = taken();
  await until(() => answers >= 120);

  // 64 kB for each answer would be 6 MB.
  const more = taken() - before;
  assert.ok(more < 2_000_000, `${more} bytes for 100 answers`);
  assert.equal(await gateway.metric('ledgergate_fast_path_handovers_total'), 0);
});
