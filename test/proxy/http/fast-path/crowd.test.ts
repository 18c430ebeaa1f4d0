/** Hits share arenas: every client must get its own answers, however slowly others read. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { nodeAndGateway } from '../../../support/gateway.ts';
import { answersIn } from '../../../support/raw-http.ts';

const connections = 40;
const rounds = 12;
const perRound = 8;
/** Body sizes below, at and above the largest that is copied behind its head. */
const sizes = [60, 400, 2_000, 9_000, 20_000];
const accounts = 12;

function targetOf(index: number): string {
  const size = sizes[index % sizes.length];
  const account = (index % accounts).toString(16).padStart(6, '0');
  return `/v1/accounts/0x5a${account}/resource/0x1::ledgergate_sample::Padded${size}?ledger_version=1000`;
}

test('concurrent clients each get their own answers, in order', async (t) => {
  const { node, gateway } = await nodeAndGateway(t, { config: { listen: { fastPath: true } } }, { head: 5_000n });
  const all = Array.from({ length: sizes.length * accounts }, (_, index) => targetOf(index));
  const bodies = new Map<string, string>();
  for (const target of all) {
    const answer = await gateway.get(target.slice('/v1'.length));
    assert.equal(answer.status, 200);
    bodies.set(target, answer.text);
  }
  const reads = node.requests;
  const crowd = Array.from({ length: connections }, (_, client) => talk(gateway.port, client));
  for (const [client, received] of (await Promise.all(crowd)).entries()) {
    const asked = questionsOf(client).flat();
    const answers = answersIn(received);
    assert.equal(answers.length, asked.length);
    for (const [at, { status, body }] of answers.entries()) {
      assert.deepEqual([status, body], [200, bodies.get(asked[at] ?? '')], `client ${client}, answer ${at}`);
    }
  }
  assert.equal(node.requests, reads);
  const asked = connections * rounds * perRound;
  assert.ok((await gateway.metric('ledgergate_fast_path_requests_total{kind="known"}')) > asked / 2);
});

/** Requests of one client, round by round. */
function questionsOf(client: number): string[][] {
  return Array.from({ length: rounds }, (_, round) =>
    Array.from({ length: perRound }, (_, at) => targetOf(client * 7 + round * 3 + at * 11)),
  );
}

/** Everything one client receives. Every fourth client pauses its reading after a request. */
function talk(port: number, client: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const left = questionsOf(client);
    let received = '';
    let awaited = 0;
    const next = (): void => {
      const targets = left.shift();
      if (targets === undefined) return;
      const isLast = left.length === 0;
      const heads = targets.map((target, at) => {
        const close = isLast && at === targets.length - 1 ? 'Connection: close\r\n' : '';
        return `GET ${target} HTTP/1.1\r\nHost: a\r\n${close}\r\n`;
      });
      awaited += targets.length;
      socket.write(heads.join(''));
      if (client % 4 > 0) return;
      socket.pause();
      setTimeout(() => socket.resume(), 5);
    };
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (received.split('HTTP/1.1 ').length > awaited && isWhole(received)) next();
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(received));
    socket.once('connect', next);
  });
}

function isWhole(received: string): boolean {
  const head = received.lastIndexOf('HTTP/1.1 ');
  const body = received.indexOf('\r\n\r\n', head) + 4;
  const length = Number(/^content-length: (\d+)/im.exec(received.slice(head, body))?.[1]);
  return body > 3 && received.length - body >= length;
}
