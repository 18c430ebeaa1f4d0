import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { fakeNode } from '../support/fake-node.ts';

const viewPath = '/view?ledger_version=7';
const bcsView = 'application/x.aptos.view_function+bcs';

function post(body: string | Uint8Array<ArrayBuffer>, type = 'application/json'): RequestInit {
  return { method: 'POST', body, headers: { 'content-type': type } };
}

function viewOf(name: string, args = '[]'): string {
  return `{"function":"0x1::ledgergate_sample::${name}","type_arguments":[],"arguments": ${args}}`;
}

function bcsText(value: string): Buffer {
  return Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
}

/** A view call in BCS, written out by hand: address, module, function, no type arguments, the arguments. */
function bcsViewOf(name: string, args: readonly string[]): Uint8Array<ArrayBuffer> {
  const address = Buffer.from('1'.padStart(64, '0'), 'hex');
  const values = args.map((hex) => Buffer.concat([Buffer.from([hex.length / 2]), Buffer.from(hex, 'hex')]));
  const counts = [Buffer.from([0]), Buffer.from([args.length])];
  return new Uint8Array(Buffer.concat([address, bcsText('ledgergate_sample'), bcsText(name), ...counts, ...values]));
}

test('the version view shows the version that was read, for a JSON and for a BCS call', async (t) => {
  const node = await fakeNode(t);

  const json = await fetch(node.url + viewPath, post(viewOf('version')));
  const bcs = await fetch(node.url + viewPath, post(bcsViewOf('version', []), bcsView));

  assert.deepEqual([await json.text(), await bcs.text()], ['["7"]', '["7"]']);
  assert.match(json.headers.get('x-node-gas-used') ?? '', /^[1-9]\d*$/);
});

test('the echo view gives back the arguments as they were written', async (t) => {
  const node = await fakeNode(t);
  const args = String.raw`[ 1.0, "a]\"" ,{"arguments" : [18446744073709551616]}, 1e0 ]`;

  const json = await fetch(node.url + viewPath, post(viewOf('echo', args)));
  const bcs = await fetch(node.url + viewPath, post(bcsViewOf('echo', ['00ff', '']), bcsView));

  assert.equal(await json.text(), args);
  assert.equal(await bcs.text(), '["0x00ff","0x"]');
});

test('a view that is not known is a 400 with ledger headers', async (t) => {
  const node = await fakeNode(t);
  const messageOf = async (body: RequestInit): Promise<unknown> => {
    const reply = await fetch(node.url + viewPath, body);
    assert.deepEqual([reply.status, reply.headers.get('x-node-ledger-version')], [400, '1000']);
    return ((await reply.json()) as { message: string }).message;
  };

  const unknown = viewOf('x').replace('ledgergate_sample', 'coin');
  assert.equal(await messageOf(post(unknown)), 'could not find view function by 0x1::coin::x');
  assert.match(String(await messageOf(post(viewOf('x')))), /^Module ModuleId \{.*\} can't be found$/);
  assert.match(String(await messageOf(post(new Uint8Array([1, 2]), bcsView))), /^Failed to deserialize/);
});

test('content types of a view and of a submission match as whole strings, others as media types', async (t) => {
  const node = await fakeNode(t);
  const item = '{"key_type":"u64","value_type":"u64","key":"1"}';
  const status = async (path: string, body: string, type: string): Promise<number> =>
    (await fetch(node.url + path, post(body, type))).status;

  assert.equal(await status('/view', viewOf('version'), 'application/json; charset=utf-8'), 415);
  assert.equal(await status('/view', viewOf('version'), 'text/plain'), 415);
  assert.equal(await status('/transactions', '{}', 'application/json;charset=utf-8'), 415);
  assert.equal(await status('/tables/0x1/item', item, 'application/json; charset=utf-8'), 404);
  assert.equal(await status('/tables/0x1/item', item, 'application/hal+json'), 404);
  assert.equal(await status('/tables/0x1/item', item, 'text/json'), 415);
});

test('a POST without a declared length is a 411, one that declares too much a 413', async (t) => {
  const node = await fakeNode(t);
  const statusOf = (headers: Record<string, string>, body: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const sent = request(`${node.url}/view`, { method: 'POST', headers }, (reply) => {
        resolve(reply.statusCode);
        sent.destroy();
      });
      sent.on('error', reject);
      sent.write(body);
      if (headers['content-length'] === undefined) sent.end();
    });

  assert.equal(await statusOf({ 'content-type': 'application/json', 'transfer-encoding': 'chunked' }, '{}'), 411);
  assert.equal(await statusOf({ 'content-type': 'application/json', 'content-length': '8388609' }, '{}'), 413);
});

test('a body that is no JSON, or lacks a field, is refused by the framework', async (t) => {
  const node = await fakeNode(t);

  for (const body of ['', '{', '[]', '{"function":"0x1::coin::balance","type_arguments":[]}']) {
    const reply = await fetch(node.url + viewPath, post(body));
    assert.deepEqual([body, reply.status, reply.headers.get('x-node-epoch')], [body, 400, null]);
  }
});

test('a padded resource has the size that was asked, other bytes at every version, the same ones each time', async (t) => {
  const node = await fakeNode(t);
  const read = async (version: number): Promise<string> => {
    const path = `/accounts/0x5a000001/resource/0x1::ledgergate_sample::Padded60000?ledger_version=${version}`;
    return (await fetch(node.url + path)).text();
  };

  const [first, again, other] = [await read(1), await read(1), await read(2)];

  assert.equal(first.length, 60_000);
  assert.equal(again, first);
  assert.notEqual(other, first);
  assert.deepEqual(Object.keys((JSON.parse(first) as { data: object }).data), ['address', 'ledger_version', 'padding']);
});

test('an unknown account has no resources, no account answer and a balance of 0', async (t) => {
  const node = await fakeNode(t);
  const read = async (path: string): Promise<unknown> => {
    const reply = await fetch(`${node.url}/accounts/0xdead${path}`);
    const body = (await reply.json()) as number | { error_code: string };
    return [reply.status, typeof body === 'number' ? body : body.error_code];
  };

  assert.deepEqual(await read('/resource/0x1::ledgergate_sample::Probe'), [404, 'resource_not_found']);
  assert.deepEqual(await read(''), [404, 'account_not_found']);
  assert.deepEqual(await read('/balance/0xa'), [200, 0]);
});

test('a balance is a bare JSON number, recorded or above 2^53', async (t) => {
  const node = await fakeNode(t);
  const read = async (path: string): Promise<string> => (await fetch(`${node.url}/accounts/${path}`)).text();

  assert.equal(await read('0x1/balance/0xa?ledger_version=3'), '1152921504606846979');
  assert.match(await read('0xa550c18/balance/0x1::aptos_coin::AptosCoin'), /^\d{15,}$/);
});

test('a table item is not found, at a version that is named', async (t) => {
  const node = await fakeNode(t);
  const item = '{"key_type":"u64","value_type":"u64","key":{"a":"1"}}';

  const reply = await fetch(`${node.url}/tables/0x07/item?ledger_version=9`, post(item));

  const message = 'Table Item not found by Table handle(0x7), Table key({"a":"1"}) and Ledger version(9)';
  assert.deepEqual(await reply.json(), { message, error_code: 'table_item_not_found', vm_error_code: null });
});

test('the gas price is an estimate in three steps', async (t) => {
  const node = await fakeNode(t);

  const body = (await (await fetch(`${node.url}/estimate_gas_price`)).json()) as Record<string, number>;

  assert.deepEqual(Object.keys(body), ['deprioritized_gas_estimate', 'gas_estimate', 'prioritized_gas_estimate']);
});
