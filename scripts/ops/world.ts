/** The watched world: sample nodes, Redis, and a gateway with everything on, in processes of its own. */
import { writeFileSync } from 'node:fs';
import { encodeVectors } from '../../src/sample/recorded.ts';
import { advancingClock, blockHeightOf, type LedgerClock } from '../../src/sample/ledger-clock.ts';
import { Mempool } from '../../src/sample/mempool.ts';
import { createSampleNode, type SampleNode } from '../../test/support/sample-node.ts';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../src/ledger/version.ts';
import { gatewayProcess, type GatewayProcess } from '../../test/support/gateway-process.ts';
import { keysFile, testKey, type KeysFile } from '../../test/support/keys.ts';
import { redisServer, type RedisServer } from '../../test/support/redis-server.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { authority } from '../../test/support/tls.ts';
import type { CleanUp } from './clean-up.ts';

/** A node's ledger, whose pruner can keep less on demand. */
export class PrunedClock implements LedgerClock {
  window: bigint;
  readonly #ledger: LedgerClock;

  constructor(ledger: LedgerClock, window: bigint) {
    this.#ledger = ledger;
    this.window = window;
  }

  read(lag?: bigint): ReturnType<LedgerClock['read']> {
    const moment = this.#ledger.read(lag);
    const kept = moment.version > this.window ? moment.version - this.window : 0n;
    const oldestVersion = LedgerVersion.of(kept - (kept % pruneStep));
    return { ...moment, oldestVersion, oldestBlockHeight: blockHeightOf(oldestVersion) };
  }

  timestampUsecOf(version: bigint): bigint {
    return this.#ledger.timestampUsecOf(version);
  }
}

export interface World {
  readonly full: Readonly<Record<'a' | 'b' | 'c', SampleNode<PrunedClock>>>;
  readonly archive: SampleNode;
  readonly redis: RedisServer;
  readonly keys: KeysFile;
  /** A client's key. */
  readonly key: string;
  readonly gateway: GatewayProcess;
  /** PEM text of the root that clients trust. */
  readonly ca: string;
  /** The ledger's head and oldest version. */
  readonly head: () => bigint;
}

const pruneStep = 1000n;
/** Some seven hours at 190 versions a second: more than the alert on short windows asks for. */
const window = 5_000_000n;
const startHead = 50_000_000n;

export async function startWorld(cleanUp: CleanUp): Promise<World> {
  const t = cleanUp.asTest;
  const mempool = new Mempool();
  const ledger = advancingClock({ startHead, startMs: Date.now() });
  const started = async <Clock extends LedgerClock>(clock: Clock): Promise<SampleNode<Clock>> => {
    const node = await createSampleNode({ mempool, clock, keepRequests: 1 });
    cleanUp.after(() => node.close());
    return node;
  };
  const full = {
    a: await started(new PrunedClock(ledger, window)),
    b: await started(new PrunedClock(ledger, window)),
    c: await started(new PrunedClock(ledger, window)),
  };
  const archive = await started(ledger);
  const redis = await redisServer(t);
  const root = authority(t);
  const key = testKey('wallet');
  const keys = keysFile(t, [key]);
  const tls = root.certify('gateway');
  const gateway = await gatewayProcess(t, {
    full: [],
    config: configOf({ full, archive }, { store: temporaryFolder(t), redis, keys, tls }),
  });
  return { full, archive, redis, keys, key: key.text, gateway, ca: root.ca, head: () => ledger.read().version };
}

interface Beside {
  readonly store: string;
  readonly redis: RedisServer;
  readonly keys: KeysFile;
  readonly tls: { readonly cert: string; readonly key: string };
}

function configOf({ full, archive }: Pick<World, 'full' | 'archive'>, { store, redis, keys, tls }: Beside) {
  return {
    workers: 2,
    listen: { host: '127.0.0.1', port: 0, tls },
    upstreams: [
      ...Object.entries(full).map(([name, { url }]) => ({ name: `full-${name}`, url, tier: 'full' })),
      { name: 'archive', url: archive.url, tier: 'archival' },
    ],
    // Each read and each encoding is compared, so that one lie is found out at once.
    // Few places at nodes, so that a burst has to wait for them.
    upstream: { audit: 1, connections: 8 },
    encode: { shadow: 1 },
    // A machine that does other things beside must not look like a Redis that is away.
    cache: { store: { path: store, maxBytes: '64MiB' }, redis: { url: redis.url, timeout: '2s' } },
    access: {
      anonymous: 'free',
      keys: { file: keys.path },
      plans: { free: { window: '10s', requests: 1_000_000, cost: 10_000_000 } },
      usage: { metricsByKey: true },
    },
  };
}

/** Requests for signing messages that nodes and gateway encode alike. */
export const signingRequests: readonly string[] = encodeVectors
  .filter(({ chainId, status }) => chainId === 1 && status === 200)
  .slice(0, 5)
  .map(({ request }) => request);

/** The node gives this body to requests whose address contains `part`, as good as any other answer of it, until the end. */
export function lie(node: SampleNode, part: string, body: string): () => void {
  const list = new Dialect('node').list(node.ledger());
  const headers = Object.fromEntries(list.flatMap((name, at) => (at % 2 === 0 ? [[name, list[at + 1] ?? '']] : [])));
  node.faults.add({ kind: 'answer', status: 200, body, headers }, { when: ({ url }) => url.includes(part) });
  return () => node.faults.clear();
}

/** A mistake in an edited config. */
export function breakConfig({ gateway }: World): void {
  writeFileSync(gateway.file, 'upstreams: []\nlisten: { prot: 8080 }\n');
}
