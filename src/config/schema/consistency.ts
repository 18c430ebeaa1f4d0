/**
 * Values that are valid alone and contradict each other. The checks also run after schema issues, so that one start
 * reports every problem; malformed values are the schema's to report.
 */
import { isBuiltin } from 'node:module';
import { isIP } from 'node:net';
import process from 'node:process';
import { isFitForCredentials } from './access-schema.ts';
import { findDurationMs } from './schema-parts.ts';
import { findValue, isMapping, type KeyPath, type Positions, type Problem } from '../source/problem.ts';
import { nearMissHint } from '../../ledger/index.ts';
import { configSchema } from './schema.ts';

type ReadValue = (path: KeyPath) => unknown;

/** A problem without its place. `atKey`: the place is the key's, not the value's. */
interface Contradiction {
  readonly path: KeyPath;
  readonly message: string;
  readonly atKey?: boolean;
}

/** The contradictions of `root`: the file, overridden by flags and variables. */
export function findContradictions(root: unknown, positions: Positions): readonly Problem[] {
  const defaults = configSchema.parse({ upstreams: [{ name: 'any', url: 'http://any.invalid' }] });
  const read: ReadValue = (path) => findValue(root, path) ?? findValue(defaults, path);
  // The reported key is one that was written: the other may be a default.
  const given = (path: KeyPath, other: KeyPath): KeyPath => (positions.findValue(path) === undefined ? other : path);
  const nodes = listAt(read, ['upstreams']).map((_, index): KeyPath => ['upstreams', index]);
  const contradictions = [
    ...longerThanDeadline(['upstream', 'timeout'], read, given),
    ...longerThanDeadline(['latest', 'waitForVersion'], read, given),
    ...samePortTwice(read, given),
    ...repeatedNames(read, ['upstreams']),
    ...repeatedNames(read, ['operations', 'tokens']),
    ...reservedOperators(read),
    ...nodes.flatMap((path) => addressFaults(read, path)),
    ...redisServers(read, ['cache', 'redis']),
    ...redisServers(read, ['access', 'redis']),
    ...[...nodes, ['cache', 'redis'], ['access', 'redis']].flatMap((path) => halfPair(read, path)),
    ...overrideKeys(root),
    ...missingSqlite(read),
    ...access(root),
    ...[...nodes, ['tracing']].flatMap((path) => credentialNames(read, path)),
  ];
  return contradictions.map(({ path, message, atKey }) => ({
    where: atKey === true ? positions.ofKey(path) : positions.ofValue(path),
    path,
    message,
  }));
}

type Given = (path: KeyPath, other: KeyPath) => KeyPath;

function longerThanDeadline(path: KeyPath, read: ReadValue, given: Given): readonly Contradiction[] {
  const deadlinePath = ['upstream', 'deadline'];
  const deadline = findDurationMs(read(deadlinePath));
  const part = findDurationMs(read(path));
  if (part === undefined || deadline === undefined || part <= deadline) return [];
  const message = `${path.join('.')} (${String(read(path))}) is longer than upstream.deadline (${String(read(deadlinePath))})`;
  return [{ path: given(path, deadlinePath), message }];
}

function samePortTwice(read: ReadValue, given: Given): readonly Contradiction[] {
  const port = read(['operations', 'port']);
  // The system never picks one port twice for 0.
  if (typeof port !== 'number' || port === 0 || port !== read(['listen', 'port'])) return [];
  if (!sameHost(read(['listen', 'host']), read(['operations', 'host']))) return [];
  const path = given(['operations', 'port'], ['listen', 'port']);
  return [{ path, message: `listen.port and operations.port are both ${port}` }];
}

function repeatedNames(read: ReadValue, list: KeyPath): readonly Contradiction[] {
  const first = new Map<string, number>();
  return listAt(read, list).flatMap((item, index) => {
    const name = findValue(item, ['name']);
    if (typeof name !== 'string') return [];
    const earlier = first.get(name);
    first.set(name, earlier ?? index);
    const message = `the name "${name}" is already taken by ${list.join('.')}[${earlier}]`;
    return earlier === undefined ? [] : [{ path: [...list, index, 'name'], message }];
  });
}

/** The audit log has these names for operators without one. */
function reservedOperators(read: ReadValue): readonly Contradiction[] {
  const list = ['operations', 'tokens'];
  return listAt(read, list).flatMap((item, index) => {
    const name = findValue(item, ['name']);
    if (name !== 'token' && name !== 'loopback') return [];
    const message = `"${name}" stands for an operator without a name in the audit log: choose another`;
    return [{ path: [...list, index, 'name'], message }];
  });
}

/** Faults of the address of an upstream: one that is the gateway itself would loop every miss, and TLS and DNS need their kinds. */
function addressFaults(read: ReadValue, path: KeyPath): readonly Contradiction[] {
  const [text, discover, tls] = ['url', 'discover', 'tls'].map((key) => read([...path, key]));
  if (typeof text !== 'string') return [];
  const faults: Contradiction[] = [];
  if (isMapping(tls) && text.startsWith('http://'))
    faults.push({ path: [...path, 'tls'], message: 'needs an address that begins with https://', atKey: true });
  if (!URL.canParse(text)) return faults;
  const url = new URL(text);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (discover === 'dns' && isIP(host) !== 0)
    faults.push({ path: [...path, 'discover'], message: 'needs a host name in url, not an address' });
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  if (port === read(['listen', 'port']) && isLocal(host) && sameHost(host, read(['listen', 'host']))) {
    const message = `is the gateway's own address: listen.port is ${port}, too (give the gateway another port)`;
    faults.push({ path: [...path, 'url'], message });
  }
  return faults;
}

/** A Node built or started without SQLite cannot load the store. */
function missingSqlite(read: ReadValue): readonly Contradiction[] {
  if (read(['cache', 'store']) === undefined || isBuiltin('node:sqlite')) return [];
  return [
    { path: ['cache', 'store'], message: `needs SQLite, which this Node ${process.versions.node} lacks`, atKey: true },
  ];
}

function redisServers(read: ReadValue, path: KeyPath): readonly Contradiction[] {
  const redis = read(path);
  if (!isMapping(redis)) return [];
  const given = ['url', 'cluster', 'sentinel'].filter((key) => redis[key] !== undefined);
  if (given.length !== 1) {
    const met = given.length === 0 ? 'none of them' : given.join(' and ');
    return [{ path, message: `needs exactly one of url, cluster, sentinel; got ${met}`, atKey: true }];
  }
  const addresses = [redis['url'], redis['cluster'], findValue(redis, ['sentinel', 'nodes'])].flat();
  const isPlain = addresses.some((address) => typeof address === 'string' && address.startsWith('redis://'));
  if (!isPlain || !isMapping(redis['tls'])) return [];
  return [{ path: [...path, 'tls'], message: 'needs addresses that begin with rediss://', atKey: true }];
}

/** TLS toward a node or Redis: a certificate without its key, or a key without its certificate. */
function halfPair(read: ReadValue, path: KeyPath): readonly Contradiction[] {
  const has = (key: string): boolean => read([...path, 'tls', key]) !== undefined;
  if (has('cert') === has('key')) return [];
  const [given, other] = has('cert') ? ['cert', 'key'] : ['key', 'cert'];
  const message = `needs ${other}: a certificate and its key are a pair`;
  return [{ path: [...path, 'tls', given], message, atKey: true }];
}

function overrideKeys(root: unknown): readonly Contradiction[] {
  const overrides = findValue(root, ['latest', 'overrides']);
  return (Array.isArray(overrides) ? overrides : []).flatMap((override: unknown, index) => {
    if (!isMapping(override)) return [];
    const given = ['view', 'route'].filter((key) => override[key] !== undefined);
    if (given.length === 1) return [];
    const met = given.length === 0 ? 'neither' : 'both';
    return [{ path: ['latest', 'overrides', index], message: `needs exactly one of view, route; got ${met}` }];
  });
}

/** Missing plans, keys without Redis, and an endpoint that would refuse every request. */
function access(root: unknown): readonly Contradiction[] {
  const at = (...path: string[]): unknown => findValue(root, ['access', ...path]);
  if (!isMapping(at())) return [];
  const [name, plans, redis, jwt] = [at('anonymous'), at('plans'), at('keys', 'redis'), at('jwt')];
  const contradictions: Contradiction[] = [];
  for (const path of [['anonymous'], ['jwt', 'plan']]) {
    const plan = at(...path);
    if (typeof plan !== 'string' || !isMapping(plans) || Object.hasOwn(plans, plan)) continue;
    const message = `there is no plan "${plan}" in access.plans${nearMissHint(plan, Object.keys(plans))}`;
    contradictions.push({ path: ['access', ...path], message });
  }
  if (redis === true && !isMapping(at('redis')) && !isMapping(findValue(root, ['cache', 'redis']))) {
    contradictions.push({
      path: ['access', 'keys', 'redis'],
      message: 'needs access.redis, or cache.redis: it holds the keys',
    });
  }
  if (![at('keys', 'file'), redis, name, jwt].some((value) => (value ?? false) !== false)) {
    const message =
      'needs keys (keys.file or keys.redis), tokens (jwt), or a plan for requests without one (anonymous)';
    contradictions.push({ path: ['access'], message, atKey: true });
  }
  return contradictions;
}

/** Two spellings of one name are one header; reserved names have another meaning to node and collector. */
function credentialNames(read: ReadValue, path: KeyPath): readonly Contradiction[] {
  const headers = read([...path, 'headers']);
  const seen = new Set<string>();
  return Object.keys(isMapping(headers) ? headers : {}).flatMap((name) => {
    const isSecond = seen.has(name.toLowerCase());
    seen.add(name.toLowerCase());
    if (!isSecond && isFitForCredentials(name)) return [];
    const message = isSecond
      ? 'the header is given twice'
      : 'is no header for a credential: the gateway writes it itself';
    return [{ path: [...path, 'headers', name], message, atKey: true }];
  });
}

function listAt(read: ReadValue, path: KeyPath): readonly unknown[] {
  const list = read(path);
  return Array.isArray(list) ? list : [];
}

/** True when sockets on both hosts would collide: equal, or one is a wildcard address. */
function sameHost(left: unknown, right: unknown): boolean {
  return left === right || isEvery(left) || isEvery(right) || (isLocal(left) && isLocal(right));
}

function isEvery(host: unknown): boolean {
  return host === '0.0.0.0' || host === '::';
}

function isLocal(host: unknown): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host === '::1' || isEvery(host);
}
