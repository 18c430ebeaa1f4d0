/** Ways in which one node is wrong while others are well. */
import { gzipSync } from 'node:zlib';
import type { Asked, Distort, Said } from './distorting-node.ts';
import { errorBody } from './error-body.ts';

/** Reads are distorted, and looks at the ledger info are not: the node tells its ledger and seems well. */
const toReads =
  (distort: Distort): Distort =>
  (said, asked) =>
    asked.isLook ? said : distort(said, asked);

/** What goes with ledger headers, and what goes without: a node's own word, or that of a proxy before it. */
const isLedgerHeader = (name: string): boolean => name.startsWith('x-node-');

function error(code: string): Buffer {
  return Buffer.from(errorBody(code));
}

interface Status {
  readonly status: number;
  readonly body?: Buffer | string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly hasLedger?: boolean;
}

function status({ status: code, body = '', headers = {}, hasLedger = false }: Status): Distort {
  return toReads((said) => {
    const ledger = Object.entries(said.headers).filter(([name]) => hasLedger && isLedgerHeader(name));
    const own = { 'content-type': 'application/json', ...Object.fromEntries(ledger), ...headers };
    return { status: code, headers: own, body: Buffer.from(body) };
  });
}

const html = { 'content-type': 'text/html' };
const page = '<!doctype html><title>Sign in</title>';

/** Changes one header; `undefined`: leaves it out. */
function header(name: string, change: (value: string, said: Said) => string | undefined): Distort {
  return (said) => {
    const before = said.headers[name];
    if (before === undefined) return said;
    const { [name]: _before, ...others } = said.headers;
    const value = change(before, said);
    return { ...said, headers: value === undefined ? others : { ...others, [name]: value } };
  };
}

const versionOf = ({ headers }: Said): bigint => BigInt(headers['x-node-ledger-version'] ?? 0);
const pinnedTo = ({ path }: Asked): bigint => BigInt(/ledger_version=(\d+)/.exec(path)?.[1] ?? -1n);

/** Tells that it goes back to the beginning, and has pruned all but the newest half of what it is asked for. */
const lyingOldest: Distort = (said, asked) => {
  const version = pinnedTo(asked);
  const headers = { ...said.headers, 'x-node-ledger-oldest-version': '0', 'x-node-oldest-block-height': '0' };
  const isPruned = version >= 0n && version < versionOf(said) - 50_000n;
  return isPruned ? { status: 410, headers, body: error('version_pruned') } : { ...said, headers };
};

export const wrongWays: Readonly<Record<string, Distort>> = {
  '500 with the specified body': status({ status: 500, body: error('internal_error'), hasLedger: true }),
  '500 without a body': status({ status: 500 }),
  '502 as a page': status({ status: 502, body: page, headers: html }),
  '503 health_check_failed': status({ status: 503, body: error('health_check_failed'), hasLedger: true }),
  '503 overloaded': status({ status: 503, body: error('overloaded') }),
  '503 without a body': status({ status: 503 }),
  '429 with Retry-After': status({ status: 429, headers: { 'retry-after': '1' } }),
  '429 rate_limited': status({ status: 429, body: error('rate_limited') }),
  '404 without a body': status({ status: 404, hasLedger: true }),
  '410 without a body': status({ status: 410, hasLedger: true }),
  '410 with the specified body': status({ status: 410, body: error('version_pruned'), hasLedger: true }),
  '403 as a page': status({ status: 403, body: page, headers: html }),
  '403 with the specified body': status({ status: 403, body: error('api_disabled') }),
  '401 with a body': status({ status: 401, body: error('unauthorized') }),
  '400 without a body': status({ status: 400, hasLedger: true }),
  'a redirection': status({ status: 302, headers: { location: '/elsewhere' } }),
  HTML: status({ status: 200, body: page, headers: html, hasLedger: true }),
  'no chain id': toReads(header('x-node-chain-id', () => undefined)),
  'another chain id': toReads(header('x-node-chain-id', () => '99')),
  'no epoch': toReads(header('x-node-epoch', () => undefined)),
  'a timestamp of no number': toReads(header('x-node-ledger-timestampusec', () => 'now')),
  'a block height above the version': toReads(header('x-node-block-height', (_, said) => `${versionOf(said) + 1n}`)),
  'a content type of another form': toReads(header('content-type', () => 'application/x-bcs')),
  'a lying head': header('x-node-ledger-version', (value) => `${BigInt(value) + 1_000_000_000n}`),
  'a lying oldest version': lyingOldest,
  slow: toReads((said) => ({ ...said, afterMs: 300 })),
  'hung reads': toReads(() => 'hang'),
  hung: () => 'hang',
  reset: toReads(() => 'reset'),
  cut: toReads((said) => ({ ...said, cutAt: said.body.length >> 1 })),
  compressed: toReads((said) => ({
    ...said,
    headers: { ...said.headers, 'content-encoding': 'gzip' },
    body: gzipSync(said.body),
  })),
  flapping: toReads((said, { count }) => (count % 4 < 2 ? said : 'reset')),
  'a fifth of 500': toReads((said, asked) =>
    asked.count % 5 === 0 ? { status: 500, headers: said.headers, body: error('internal_error') } : said,
  ),
};
