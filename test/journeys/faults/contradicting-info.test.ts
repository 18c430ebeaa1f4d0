/** A ledger info whose body contradicts its headers: clients get one coherent snapshot, and the ledger never steps back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { distortingNode, type Distort } from '../../support/distorting-node.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { testGateway } from '../../support/gateway.ts';

type Info = Readonly<Record<string, unknown>>;

const error = { message: 'm', error_code: 'internal_error', vm_error_code: null };

/** A node at version 1000, whose ledger info has the body that `change` makes of it. */
const changed =
  (change: (info: Info) => unknown): Distort =>
  (said, { isLook }) =>
    isLook ? { ...said, body: Buffer.from(JSON.stringify(change(JSON.parse(said.body.toString()) as Info))) } : said;

const contradictions: Readonly<Record<string, (info: Info) => unknown>> = {
  'an older version': (info) => ({ ...info, ledger_version: '5', block_height: '0' }),
  'a newer version': (info) => ({ ...info, ledger_version: '5000000' }),
  'another epoch, time and block': (info) => ({ ...info, epoch: '0', ledger_timestamp: '1', block_height: '999' }),
};

for (const [what, change] of Object.entries(contradictions)) {
  test(`a ledger info of ${what} than its headers is answered by the snapshot of the headers`, async (t) => {
    const node = await fakeNode(t, { head: 1_000n });
    const gateway = await testGateway(t, { full: [await distortingNode(t, node, changed(change))] });

    const { status, text, headers } = await gateway.get('');

    const told = JSON.parse(text) as Info;
    assert.equal(status, 200);
    assert.deepEqual(
      [told['ledger_version'], told['epoch'], told['ledger_timestamp'], told['block_height']],
      ['ledger-version', 'epoch', 'ledger-timestampusec', 'block-height'].map((name) => headers[`x-node-${name}`]),
    );
    assert.deepEqual(Object.keys(told), Object.keys(JSON.parse(await (await fetch(node.url)).text()) as Info));
  });
}

const refused: Readonly<Record<string, (info: Info) => unknown>> = {
  'another chain': (info) => ({ ...info, chain_id: 99 }),
  'an error': () => error,
  'an array': () => [],
  null: () => null,
};

for (const [what, change] of Object.entries(refused)) {
  test(`a ledger info with ${what} in its body is answered by another node`, async (t) => {
    const wrong = await distortingNode(t, await fakeNode(t, { head: 1_001n }), changed(change));
    const gateway = await testGateway(t, { full: [wrong, await fakeNode(t, { head: 1_000n })] });

    const told = JSON.parse((await gateway.get('')).text) as Info;

    assert.deepEqual([told['chain_id'], told['ledger_version']], [1, '1000']);
  });
}
