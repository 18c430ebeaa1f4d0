/** Modules that the encoder needs are read in the turn of the client whose request needs them. */
import assert from 'node:assert/strict';
import { request, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { test, type TestContext } from 'node:test';
import { until } from '../../support/eventually.ts';
import { testGateway, type TestGateway } from '../../support/gateway.ts';
import { refusal, vectorNode } from '../../support/vector-node.ts';
import { encodeRequest } from '../../support/submission.ts';

const greedy = '127.0.0.2';
const modest = '127.0.0.3';

/** Two places at the only node. A read of a module keeps its place until `release`. */
async function scene(t: TestContext, shadow = 0) {
  const node = await vectorNode(t);
  for (let at = 0; at < 8; at += 1) node.publish(moduleAnswer(`shop${at}`));
  node.encode = () => ({ status: 200, body: '"0x00"' });
  const upstream = { connections: 2, timeoutMs: 20_000, deadlineMs: 20_000 };
  const gateway = await testGateway(t, { full: [node], config: { upstream, encode: { shadow } }, now: () => 0 });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  node.holdModules = released;
  const waiting = (): Promise<number> => gateway.metric('ledgergate_upstream_queue_requests');
  return { node, gateway, release, waiting };
}

function moduleAnswer(name: string): string {
  const functions = ['buy', 'sell'].map((called) => {
    return { name: called, is_entry: true, generic_type_params: [], params: ['&signer', 'u64'] };
  });
  return JSON.stringify({
    bytecode: '0x',
    abi: { address: '0xcafe', name, exposed_functions: functions, structs: [] },
  });
}

/** Asks from a loopback address of its own, which is another client. Resolves to the body. */
function sign(address: string, { port }: TestGateway, module: string, called = 'buy'): Promise<string> {
  const body = encodeRequest(`0xcafe::${module}::${called}`, ['5']);
  return new Promise((resolve, reject) => {
    const target = {
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/v1/transactions/encode_submission',
      headers: { 'content-type': 'application/json', 'content-length': body.length },
      localAddress: address,
    };
    request(target, (answer: IncomingMessage) => void text(answer).then(resolve, reject))
      .on('error', reject)
      .end(body);
  });
}

const isLocal = (answer: string): boolean => /^"0x[0-9a-f]{300,}"$/.test(answer);

test('a client whose modules no node answers waits alone; another client\u2019s request is encoded locally', async (t) => {
  const { gateway, release, waiting } = await scene(t);
  const crowd = Array.from({ length: 66 }, (_, at) => sign(greedy, gateway, `absent${at}`));
  await until(async () => (await waiting()) >= 64);

  const answers = Array.from({ length: 8 }, (_, at) => sign(modest, gateway, `shop${at}`));
  await until(async () => (await gateway.metric('ledgergate_upstream_queue_refusals_total{reason="full"}')) >= 8);
  release();

  assert.deepEqual(
    (await Promise.all(answers)).map(isLocal),
    Array.from({ length: 8 }, () => true),
  );
  await Promise.all(crowd);
});

test('a module that a greedy client\u2019s flight waits for is read in the first turn that comes', async (t) => {
  const { gateway, node, release, waiting } = await scene(t);
  const order: string[] = [];
  const from = async (address: string, module: string): Promise<void> => {
    const answer = await sign(address, gateway, module);
    order.push(`${address} ${isLocal(answer) ? 'local' : 'node'}`);
  };
  const crowd = Array.from({ length: 50 }, (_, at) => from(greedy, `absent${at}`));
  await until(async () => (await waiting()) >= 48);
  crowd.push(from(greedy, 'shop0'));
  await until(async () => (await waiting()) >= 49);

  const answer = from(modest, 'shop0');
  await until(async () => (await waiting()) >= 50);
  release();
  await Promise.all([...crowd, answer]);

  const turn = order.indexOf(`${modest} local`);
  assert.ok(turn >= 0 && turn < 10, `it came as number ${turn + 1} of ${order.length}`);
  // Both clients are given the one answer.
  assert.ok(order.indexOf(`${greedy} local`) < 12, order.join());
  assert.equal(node.moduleReads, 51);
});

test('a read of a module that a node works on is shared with every client', async (t) => {
  const { gateway, node, release } = await scene(t);
  const first = sign(greedy, gateway, 'shop0');
  await until(() => node.moduleReads === 1);

  const others = ['127.0.0.3', '127.0.0.4', '127.0.0.5'].map((address) => sign(address, gateway, 'shop0'));
  await until(async () => (await gateway.metric('ledgergate_http_in_flight_requests')) >= 4);
  release();

  assert.deepEqual((await Promise.all([first, ...others])).map(isLocal), [true, true, true, true]);
  assert.equal(node.moduleReads, 1);
});

test('a client with a full queue does not use up the check of a function', async (t) => {
  const { gateway, node, release, waiting } = await scene(t, 1e-9);
  node.encode = () => refusal('web_framework_error', 'no word on the bytes');
  const inconclusive = (): Promise<number> => gateway.metric('ledgergate_encode_checks_total{result="inconclusive"}');
  node.holdModules = Promise.resolve();
  await sign(modest, gateway, 'shop0');
  await until(() => node.encodes.length === 1);
  const { promise: held, resolve: giveOut } = Promise.withResolvers<void>();
  node.holdModules = held;
  const crowd = Array.from({ length: 66 }, (_, at) => sign(greedy, gateway, `absent${at}`));
  await until(async () => (await waiting()) >= 64);

  const local = [await sign(greedy, gateway, 'shop0', 'sell')];
  await until(async () => (await inconclusive()) === 1);
  local.push(await sign(modest, gateway, 'shop0', 'sell'));
  giveOut();
  release();
  await Promise.all(crowd);

  await until(() => node.encodes.some(({ body }) => body.includes('shop0::sell')));
  assert.deepEqual(local.map(isLocal), [true, true]);
});
