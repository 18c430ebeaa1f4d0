// A gateway with TLS: drain, new certificates, several workers, other clients.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request as send } from 'undici';
import { until } from '../../support/eventually.ts';
import { fakeNode } from '../../support/fake-node.ts';
import { gatewayProcess } from '../../support/gateway-process.ts';
import { patient, testGateway, type LogLine } from '../../support/gateway.ts';
import { H2Crowd } from '../../support/h2-crowd.ts';
import { askH1, askH2, authority, h2Session, replaceFiles, tlsSocket } from '../../support/tls.ts';
import { metric, noWorker } from '../../support/workers.ts';

const probe = '/v1/accounts/0x1/resource/0x1::ledgergate_sample::Probe';
const pinned = (count: number): string => `${probe}?ledger_version=${(count % 900) + 1}`;

test('a gateway that drains under HTTP/2 load: 0 failed', async (t) => {
  const node = await fakeNode(t, { keepRequests: 1 });
  node.faults.add({ kind: 'latency', ms: 150 }, { when: ({ url }) => url.endsWith('7') });
  const ca = authority(t);
  const tls = ca.certify('gateway');
  // Whether a busy machine makes it refuse requests is another question.
  const options = { full: [node], config: { listen: { tls }, upstream: patient }, drainDelayMs: 300 };
  const [leaving, staying] = [await testGateway(t, options), await testGateway(t, options)];
  let target = leaving;
  const crowd = new H2Crowd(t, {
    ca: ca.ca,
    origin: () => new URL(target.url).origin,
    clients: 6,
    streams: 8,
    path: pinned,
  });
  await until(() => crowd.answered > 100);
  const before = crowd.answered;
  target = staying;
  await leaving.close();
  const after = crowd.answered;
  await until(() => crowd.answered > after + 100);
  await crowd.end();
  t.diagnostic(`${before} before, ${crowd.answered} in all, ${crowd.repeated} asked again`);
  assert.deepEqual(crowd.failed, []);
});

test('GOAWAY is sent when no stream is in flight, for clients that fail streams at GOAWAY', async (t) => {
  const node = await fakeNode(t);
  const ca = authority(t);
  const gateway = await testGateway(t, {
    full: [node],
    config: { listen: { tls: ca.certify('gateway') } },
    drainDelayMs: 500,
  });
  const release = Promise.withResolvers<void>();
  node.faults.add({ kind: 'hold', until: release.promise }, { when: ({ url }) => url.includes('Probe') });
  const agent = new Agent({ allowH2: true, connections: 1, connect: { ca: ca.ca } });
  t.after(() => agent.destroy());
  const under = send(`${new URL(gateway.url).origin}${pinned(1)}`, { dispatcher: agent });
  await node.log.next(({ url }) => url.includes('Probe'));
  const closed = gateway.close();
  await sleep(50);
  release.resolve();
  const { statusCode, body } = await under;
  assert.equal(statusCode, 200);
  assert.equal(JSON.parse(await body.text()).data.ledger_version, '2');
  await closed;
});

test('another certificate under load: 0 failed, new connections get it; a bad one changes nothing', async (t) => {
  const node = await fakeNode(t, { keepRequests: 1 });
  const ca = authority(t);
  const tls = ca.certify('first');
  const second = ca.certify('second');
  const ended = ca.certify('ended', -1);
  const log: LogLine[] = [];
  const gateway = await testGateway(t, {
    full: [node],
    config: { listen: { tls }, upstream: patient },
    onLog: (line) => log.push(line),
  });
  const { origin } = new URL(gateway.url);
  const shown = async (): Promise<string> => {
    const socket = await tlsSocket(t, gateway.port, { ca: ca.ca, ALPNProtocols: ['h2'] });
    const { CN } = socket.getPeerCertificate().subject;
    socket.destroy();
    return String(CN);
  };
  const kept = await h2Session(t, origin, ca.ca);
  const crowd = new H2Crowd(t, { ca: ca.ca, origin: () => origin, clients: 4, streams: 4, path: pinned });
  assert.equal(await shown(), 'first');
  const firstEnd = await gateway.metric('ledgergate_tls_certificate_expiry_timestamp_seconds');
  assert.ok(firstEnd > Date.now() / 1000 && firstEnd < Date.now() / 1000 + 31 * 86_400);

  replaceFiles(tls, second);
  await until(async () => (await shown()) === 'second');
  assert.equal((await askH2(kept, { path: '/v1' })).status, 200);
  assert.equal((await askH1(origin, { path: '/v1' }, ca.ca)).status, 200);
  assert.equal(await gateway.metric('ledgergate_tls_reloads_total{result="ok"}'), 1);

  let failures = 0;
  for (const spoil of [
    () => writeFileSync(tls.key, 'no key'),
    () => replaceFiles(tls, { ...second, key: ca.certify('third').key }),
    () => replaceFiles(tls, ended),
  ]) {
    spoil();
    failures += 1;
    const wanted = failures;
    await until(async () => (await gateway.metric('ledgergate_tls_reloads_total{result="failed"}')) >= wanted);
    assert.equal(await shown(), 'second');
  }
  await until(() => crowd.answered > 100);
  await crowd.end();
  assert.deepEqual(crowd.failed, []);
  const refusals = log.filter(({ level }) => Number(level) >= 50);
  assert.ok(refusals.length >= 3);
  assert.doesNotMatch(JSON.stringify(log), /PRIVATE KEY|no key"/);
});

test('each of two workers has the new certificate; one that starts without its key serves that of the others', async (t) => {
  const ca = authority(t);
  const [tls, second] = [ca.certify('first'), ca.certify('second')];
  const ended = ca.certify('ended', -1);
  const listen = { host: '127.0.0.1', port: 0, tls };
  const gateway = await gatewayProcess(t, { full: [await fakeNode(t)], config: { workers: 2, listen } });
  const { origin, port } = new URL(gateway.url);
  const shown = async (): Promise<string> => {
    const socket = await tlsSocket(t, Number(port), { ca: ca.ca, ALPNProtocols: ['h2'] });
    const { CN } = socket.getPeerCertificate().subject;
    socket.destroy();
    return String(CN);
  };
  const reloads = (result: string) => metric(gateway, `ledgergate_tls_reloads_total{result="${result}"}`);
  replaceFiles(tls, second);
  await until(async () => (await reloads('ok')) === 2);

  const spoilings = [() => writeFileSync(tls.key, 'no key'), () => replaceFiles(tls, ended)];
  for (const [index, spoil] of spoilings.entries()) {
    const failed = ((await reloads('failed')) ?? 0) + 2;
    spoil();
    await until(async () => (await reloads('failed')) === failed);
    process.kill(gateway.workers()[0] ?? noWorker(), 'SIGKILL');
    await until(async () => (await metric(gateway, 'ledgergate_worker_restarts_total')) === index + 1);
    await until(async () => (await metric(gateway, 'ledgergate_workers')) === 2);
    for (let at = 0; at < 4; at += 1) assert.equal(await shown(), 'second');
  }
  assert.match(gateway.err(), /"why":"listen\.tls\.key: holds no private key[^"]*"/);

  const third = ca.certify('third');
  replaceFiles(tls, third);
  await until(async () => (await reloads('ok')) === 4);
  // One after the other, so that each worker gets one.
  for (let at = 0; at < 2; at += 1) assert.equal(await shown(), 'third');
  for (let at = 0; at < 2; at += 1)
    assert.equal((await askH2(await h2Session(t, origin, ca.ca), { path: '/v1' })).status, 200);
  assert.equal(await gateway.stop(), 0);
});

test('the public SDK reads and waits over TLS with its own client', async (t) => {
  const node = await fakeNode(t, { dialect: 'aptos', chainId: 4 });
  const ca = authority(t);
  const gateway = await testGateway(t, { full: [node], config: { listen: { tls: ca.certify('gateway') } } }, 'aptos');
  const script = `
    import { Aptos, AptosConfig, Network } from '@aptos-labs/ts-sdk';
    const aptos = new Aptos(new AptosConfig({ network: Network.CUSTOM, fullnode: '${gateway.url}' }));
    const info = await aptos.getLedgerInfo();
    const reads = await Promise.all(Array.from({ length: 40 }, (_, at) => aptos.getAccountResource({
      accountAddress: '0x1', resourceType: '0x1::ledgergate_sample::Probe', options: { ledgerVersion: 900 + at } })));
    const [viewed] = await aptos.viewJson({ payload: { function: '0x1::ledgergate_sample::version' } });
    console.log(JSON.stringify([info.ledger_version, reads.map((read) => read.ledger_version), viewed]));
    process.exit(0);`;
  const output = await runScript(t, script, { NODE_EXTRA_CA_CERTS: ca.file });
  const versions = Array.from({ length: 40 }, (_, at) => String(900 + at));
  assert.deepEqual(JSON.parse(output.trim().split('\n').at(-1) ?? ''), ['1000', versions, '1000']);
});

function runScript(t: TestContext, script: string, env: Record<string, string>): Promise<string> {
  const cwd = new URL('../../..', import.meta.url);
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd,
    env: { ...process.env, ...env },
  });
  t.after(() => child.kill('SIGKILL'));
  let out = '';
  child.stdout.on('data', (chunk) => (out += String(chunk)));
  child.stderr.on('data', (chunk) => (out += String(chunk)));
  return new Promise((resolve) => {
    child.once('close', () => resolve(out));
  });
}
