/**
 * Nodes of one ledger that can be put back to an older state and go on from there on a fork: the same first
 * transaction, the same versions, another history above the fork.
 */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { fakeNode, type FakeNode } from './fake-node.ts';
import { testGateway, type TestGateway } from './gateway.ts';
import { redisAt, type RedisServer } from './redis-server.ts';

/** Versions of the rollback, lowest first: nodes restart at `restart`, and above `fork` the history is another. */
export const fall = { restart: 1_980_000n, fork: 1_990_000n, before: 2_000_000n, after: 2_000_400n } as const;

/** A node of the ledger as it was before the rollback. */
export function oldNode(t: TestContext): Promise<FakeNode> {
  return fakeNode(t, { head: fall.before, oldest: 1_000_000n });
}

/** The node restarts on the fork, at the older state. */
export async function rollBack(node: FakeNode): Promise<void> {
  await node.refuse();
  node.clock.head = fall.restart;
  node.clock.fork(fall.fork, 'fork');
  await node.accept();
}

/** The node passes its old head again, on the fork. */
export function growBack(node: FakeNode): void {
  node.clock.head = fall.after;
}

/** A gateway that shares what it reads through `server`. */
export function forkedReplica(t: TestContext, server: RedisServer, nodes: readonly FakeNode[]): Promise<TestGateway> {
  const redis = redisAt(server.url, { ttlMs: 600_000 });
  return testGateway(t, { full: nodes, config: { upstream: { probeIntervalMs: 200 }, cache: { redis } } });
}

/** The history that the gateway's answer at `version` is of; '': the one before the rollback. */
export async function historyOf(gateway: TestGateway, version: bigint): Promise<string> {
  const path = `/accounts/0x1/resource/0x1::ledgergate_sample::Probe?ledger_version=${version}`;
  const { status, text } = await gateway.get(path);
  assert.equal(status, 200, text);
  const { data } = JSON.parse(text) as { data: { ledger_version: string; history?: string } };
  assert.equal(data.ledger_version, String(version));
  return data.history ?? '';
}

/** Reads `versions` at the gateway, some at a time; how many answers are of the history before the rollback. */
export async function oldAnswers(gateway: TestGateway, versions: readonly bigint[]): Promise<number> {
  let old = 0;
  for (let at = 0; at < versions.length; at += 16) {
    const histories = await Promise.all(versions.slice(at, at + 16).map((version) => historyOf(gateway, version)));
    old += histories.filter((history) => history === '').length;
  }
  return old;
}
