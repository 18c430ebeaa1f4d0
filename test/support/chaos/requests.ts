/** Requests of a chaos run, and the one right answer: a function of the request and its version. */
import { Address, TypeTag } from '../../../src/ledger/type-tag.ts';
import { versionsPerBlock } from '../../../src/sample/ledger-clock.ts';
import { encodeVectors } from '../../../src/sample/recorded.ts';
import {
  findSyntheticResource,
  syntheticBalance,
  syntheticHash,
  syntheticTransaction,
} from '../../../src/sample/synthetic.ts';
import type { Random } from '../random.ts';
import type { ChaosWorld } from './world.ts';

export interface ChaosRequest {
  readonly kind: RequestKind;
  /** Below the base path. */
  readonly path: string;
  /** A POST with this body. */
  readonly body?: string;
  /** State that a node must hold to answer it. Absent: the newest. */
  readonly version: bigint | undefined;
  /** Whether the client leaves the choice of the version to the gateway. */
  readonly isLatest: boolean;
  /** All the bodies that are right at `version`; more than one only where time decides. */
  right(version: bigint): readonly string[];
}

export type RequestKind = keyof typeof kinds;

/** Source of a request. */
interface From {
  readonly world: ChaosWorld;
  readonly random: Random;
  /** The newest version the client has seen. */
  readonly seen: bigint;
}

type Maker = (from: From) => Omit<ChaosRequest, 'kind'>;

/** Weights in percent. */
const kinds = {
  'near the edge': [20, (from) => read(nearEdge(from), from.random)],
  'only in the archive': [14, (from) => read(BigInt(1_000 + from.random.below(900_000)), from.random)],
  'near the head': [16, (from) => read(nearHead(from), from.random)],
  latest: [20, ({ random }) => latestRead(random)],
  'latest view': [6, () => view(undefined)],
  view: [6, (from) => view(from.random.chance(2) ? nearEdge(from) : nearHead(from))],
  'encode submission': [5, ({ random }) => encode(random)],
  'by hash': [6, byHash],
  'by version': [3, (from) => byVersion(from, nearEdge(from))],
  'passed through': [4, (from) => block(from, from.random.chance(2) ? nearEdge(from) : nearHead(from))],
} as const satisfies Readonly<Record<string, readonly [number, Maker]>>;

/** The next request of a client. */
export function nextRequest(from: From): ChaosRequest {
  let left = from.random.below(100);
  for (const [kind, [weight, make]] of Object.entries(kinds)) {
    left -= weight;
    if (left < 0) return { kind: kind as RequestKind, ...make(from) };
  }
  return { kind: 'latest', ...latestRead(from.random) };
}

function nearEdge({ world, random }: From): bigint {
  const edges = world.nodes.filter(({ tier }) => tier === 'full').map(({ node }) => node.ledger().oldestVersion);
  return random.pick(edges) + BigInt(random.below(4_000) - 2_000);
}

/** A version that some gateway has shown this client, or one a little below. */
function nearHead({ seen, random }: From): bigint {
  return seen - BigInt(random.below(200));
}

const plain = 'Probe';
/** Bodies that take more than one write. */
const long = ['Padded3000', 'Padded90000'];

function structOf(random: Random): string {
  return random.chance(6) ? random.pick(long) : plain;
}

function pinned(path: string, version: bigint | undefined): string {
  return version === undefined ? path : `${path}?ledger_version=${version}`;
}

function read(version: bigint, random: Random): Omit<ChaosRequest, 'kind'> {
  return random.chance(6) ? balance(version) : resource(version, structOf(random));
}

function latestRead(random: Random): Omit<ChaosRequest, 'kind'> {
  return random.chance(6) ? balance(undefined) : resource(undefined, structOf(random));
}

function resource(version: bigint | undefined, struct: string): Omit<ChaosRequest, 'kind'> {
  const tag = `0x1::ledgergate_sample::${struct}`;
  const [address, parsed] = [Address.parse('0x1'), TypeTag.parseStruct(tag)];
  return {
    path: pinned(`/accounts/0x1/resource/${tag}`, version),
    version,
    isLatest: version === undefined,
    right: (at) => [findSyntheticResource(address, parsed, at) ?? 'nothing'],
  };
}

function balance(version: bigint | undefined): Omit<ChaosRequest, 'kind'> {
  const path = pinned('/accounts/0x5a000001/balance/0x1::aptos_coin::AptosCoin', version);
  return { path, version, isLatest: version === undefined, right: (at) => [syntheticBalance(at)] };
}

function view(version: bigint | undefined): Omit<ChaosRequest, 'kind'> {
  const body = JSON.stringify({ function: '0x1::ledgergate_sample::version', type_arguments: [], arguments: [] });
  const path = pinned('/view', version);
  return { path, body, version, isLatest: version === undefined, right: (at) => [`["${at}"]`] };
}

const encodable = encodeVectors.filter(({ chainId, status }) => chainId === 1 && status === 200);

function encode(random: Random): Omit<ChaosRequest, 'kind'> {
  const { request, body } = random.pick(encodable);
  const path = '/transactions/encode_submission';
  return { path, body: request, version: undefined, isLatest: false, right: () => [body] };
}

/** A node that is behind the transaction still calls it pending. */
const longestLag = 10_000n;

function byHash({ world, random }: From): Omit<ChaosRequest, 'kind'> {
  const { hash, version } = random.pick(world.committed);
  const states = (): readonly bigint[] =>
    world.ledger.read().version - version > longestLag ? [version] : [version, version - 1n];
  return {
    path: `/transactions/by_hash/${hash}`,
    version,
    isLatest: false,
    right: () => states().map((head) => world.mempool.find(hash, head)?.body ?? 'unknown'),
  };
}

function byVersion({ world }: From, version: bigint): Omit<ChaosRequest, 'kind'> {
  const path = `/transactions/by_version/${version}`;
  // A transaction that was submitted and committed there stands in the place of the synthetic one.
  const right = (): readonly string[] => [
    world.mempool.at(version)?.body ?? syntheticTransaction(version, world.ledger.timestampUsecOf(version)),
  ];
  return { path, version, isLatest: false, right };
}

function block({ world }: From, version: bigint): Omit<ChaosRequest, 'kind'> {
  const height = version / versionsPerBlock;
  const first = height * versionsPerBlock;
  const body = {
    block_height: String(height),
    block_hash: syntheticHash(`block ${height}`),
    block_timestamp: String(world.ledger.timestampUsecOf(first)),
    first_version: String(first),
    last_version: String(first + versionsPerBlock - 1n),
    transactions: null,
  };
  const right = (): readonly string[] => [JSON.stringify(body)];
  return { path: `/blocks/by_version/${version}`, version, isLatest: false, right };
}
