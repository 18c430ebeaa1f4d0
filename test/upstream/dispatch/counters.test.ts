/** Requests free all resources at every kind of end. */
import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Dialect } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import type { FleetRequest } from '../../../src/upstream/dispatch/fleet-request.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { request, senderOf } from '../../support/sender.ts';

/** Numbers that look random, the same ones for the same seed. */
function chances(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const large = Buffer.alloc(300 * 1024);
const headers = [...new Dialect('node').list(ledgerInfo({ version: 900n }))];

const outcomes: readonly ((response: ServerResponse) => void)[] = [
  (response) => response.writeHead(200, headers).end('{}'),
  (response) => response.writeHead(200, headers).end('{}'),
  (response) => response.writeHead(200, headers).end(large),
  (response) => response.writeHead(500, headers).end('{"error_code":"internal_error"}'),
  (response) => response.writeHead(429).end(),
  (response) => response.writeHead(410, headers).end('{"error_code":"version_pruned"}'),
  (response) => response.socket?.destroy(),
  (response) => void response.writeHead(200, [...headers, 'Content-Length', '9']).write('{'),
  () => undefined,
];

for (const seed of [1, 2, 3, 4]) {
  test(`all places, streams, polls and waits are given back (seed ${seed})`, async (t) => {
    const chance = chances(seed);
    const { sender, fleet } = await senderOf(
      t,
      (_request, response) => {
        const outcome = outcomes[chance(outcomes.length)];
        setTimeout(() => outcome?.(response), chance(15)).unref();
      },
      {
        nodes: 3,
        connections: 4,
        limits: { timeoutMs: 60, deadlineMs: 300, stallMs: 50, hedge: { quantile: 0.5, share: 1 } },
      },
    );
    const version = LedgerVersion.of(800n);
    const one = async (index: number): Promise<void> => {
      const leaving = new AbortController();
      const { wire } = request(`/${index}`);
      const asked: FleetRequest = {
        wire: chance(5) === 0 ? { ...wire, method: 'POST', body: Buffer.from('x') } : wire,
        need: chance(3) === 0 ? { kind: 'head' } : { kind: 'version', version },
        isIdempotent: chance(5) > 0,
        isView: chance(4) === 0,
        client: String(chance(3)),
        atOnce: chance(8) === 0 ? wire : undefined,
      };
      if (chance(3) === 0) setTimeout(() => leaving.abort(), chance(40));
      const kind = asked.atOnce === undefined ? chance(3) : 0;
      if (kind === 2 && asked.need.kind === 'version') {
        await sender.another(asked, [], AbortSignal.any([leaving.signal, AbortSignal.timeout(100)]));
        return;
      }
      const answer = await (kind === 0 ? sender.whole(asked, leaving.signal) : sender.stream(asked, leaving.signal));
      if (!('stream' in answer)) return;
      const reader = chance(4);
      if (reader < 2) answer.stream.resume();
      else if (reader === 2) answer.stream.destroy();
    };
    const all: Promise<void>[] = [];
    for (let index = 0; index < 250; index += 1) {
      all.push(
        one(index).catch((error: unknown) => assert.equal((error as Error).name, 'GatewayError', String(error))),
      );
      if (chance(3) === 0) await pause(chance(4));
    }
    await Promise.all(all);
    const held = (): number[] => [
      sender.waiting,
      ...fleet.upstreams.flatMap(({ inFlight, places, streams, polls }) => [
        inFlight,
        places.inFlight,
        streams.taken,
        polls.taken,
      ]),
    ];
    for (let waits = 0; held().some((count) => count > 0) && waits < 300; waits += 1) await pause(10);
    assert.deepEqual(
      held(),
      Array.from({ length: 13 }, () => 0),
    );
  });
}
