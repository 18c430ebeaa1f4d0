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
  const contradictions = [
    ...longerThanDeadline(['upstream', 'timeout'], read, given),
    ...longerThanDeadline(['latest', 'waitForVersion'], read, given),
    ...samePortTwice(read, given),
    ...repeatedNames(read, ['upstreams']),
    ...repeatedNames(read, ['operations', 'tokens']),
    ...reservedOperators(read),
    ...ownAddress(read),
    ...discoveredAddresses(read),
    ...redisServers(read, ['cache', 'redis']),
    ...redisServers(read, ['access', 'redis']),
    ...clientTls(read),
    ...overrideKeys(root),
    ...missingSqlite(read),
    ...access(root),
    ...credentialNames(read),
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

/** An upstream that is the gateway itself would loop every miss. */
function ownAddress(read: ReadValue): readonly Contradiction[] {
  const port = read(['listen', 'port']);
  return upstreamsOf(read).flatMap((upstream, index) => {
    const text = findValue(upstream, ['url']);
    if (typeof text !== 'string' || !URL.canParse(text)) return [];
    const url = new URL(text);
    const upstreamPort = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (upstreamPort !== port || !isLocal(host) || !sameHost(host, read(['listen', 'host']))) return [];
    const message = `is the gateway's own address: listen.port is ${port}, too (give the gateway another port)`;
    return [{ path: ['upstreams', index, 'url'], message }];
  });
}

/** An address has no other addresses to find. */
function discoveredAddresses(read: ReadValue): readonly Contradiction[] {
  return upstreamsOf(read).flatMap((upstream, index) => {
    const [text, discover] = [findValue(upstream, ['url']), findValue(upstream, ['discover'])];
    if (discover !== 'dns' || typeof text !== 'string' || !URL.canParse(text)) return [];
    if (isIP(new URL(text).hostname.replace(/^\[|\]$/g, '')) === 0) return [];
    return [{ path: ['upstreams', index, 'discover'], message: 'needs a host name in url, not an address' }];
  });
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

/** TLS toward nodes and Redis: a pair is whole, and the node's address is of TLS. */
function clientTls(read: ReadValue): readonly Contradiction[] {
  const nodes = upstreamsOf(read).map((_, index): KeyPath => ['upstreams', index]);
  const plain = nodes.flatMap((path): readonly Contradiction[] => {
    const [url, tls] = [read([...path, 'url']), read([...path, 'tls'])];
    if (!isMapping(tls) || typeof url !== 'string' || !url.startsWith('http://')) return [];
    return [{ path: [...path, 'tls'], message: 'needs an address that begins with https://', atKey: true }];
  });
  const halves = [...nodes, ['cache', 'redis'], ['access', 'redis']].flatMap((path): readonly Contradiction[] => {
    const place = [...path, 'tls'];
    const has = (key: string): boolean => read([...place, key]) !== undefined;
    if (has('cert') === has('key')) return [];
    const [given, other] = has('cert') ? ['cert', 'key'] : ['key', 'cert'];
    return [{ path: [...place, given], message: `needs ${other}: a certificate and its key are a pair`, atKey: true }];
  });
  return [...plain, ...halves];
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
function credentialNames(read: ReadValue): readonly Contradiction[] {
  const nodes = upstreamsOf(read).map((_, index): KeyPath => ['upstreams', index]);
  return [...nodes, ['tracing']].flatMap((place) => {
    const headers = read([...place, 'headers']);
    const names = isMapping(headers) ? Object.keys(headers) : [];
    const seen = new Set<string>();
    return names.flatMap((name) => {
      const isSecond = seen.has(name.toLowerCase());
      seen.add(name.toLowerCase());
      if (!isSecond && isFitForCredentials(name)) return [];
      const message = isSecond
        ? 'the header is given twice'
        : 'is no header for a credential: the gateway writes it itself';
      return [{ path: [...place, 'headers', name], message, atKey: true }];
    });
  });
}

function upstreamsOf(read: ReadValue): readonly unknown[] {
  return listAt(read, ['upstreams']);
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
