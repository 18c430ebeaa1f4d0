/**
 * Values that are fine alone and impossible together. Runs on what was given whether or not the schema was content
 * with all of it, so that one start reports every problem; what has no usable form is left to the schema.
 */
import { findAccessContradictions } from './access-consistency.ts';
import { isFitForCredentials } from './header-names.ts';
import { findDurationMs } from './units.ts';
import { findValue, isMapping, type KeyPath } from './key-path.ts';
import type { Positions } from './positions.ts';
import type { Problem } from './problem.ts';
import { configSchema } from './schema.ts';

type Read = (path: KeyPath) => unknown;

export function findContradictions(root: unknown, positions: Positions): readonly Problem[] {
  const defaults = configSchema.parse({ upstreams: [{ name: 'any', url: 'http://any.invalid' }] });
  const read: Read = (path) => findValue(root, path) ?? findValue(defaults, path);
  return [
    ...longerThanDeadline(['upstream', 'timeout'], read, positions),
    ...longerThanDeadline(['latest', 'waitForVersion'], read, positions),
    ...samePortTwice(read, positions),
    ...repeatedNames(read, positions),
    ...ownAddress(read, positions),
    ...redisServers(read, positions),
    ...findAccessContradictions(root, positions),
    ...credentialNames(read, positions),
  ];
}

function longerThanDeadline(path: KeyPath, read: Read, positions: Positions): readonly Problem[] {
  const deadlinePath = ['upstream', 'deadline'];
  const deadline = findDurationMs(read(deadlinePath));
  const part = findDurationMs(read(path));
  if (part === undefined || deadline === undefined || part <= deadline) return [];
  // The key that was written is the one to point at; the other may be a default nobody has seen.
  const given = positions.findValue(path) === undefined ? deadlinePath : path;
  const message = `${path.join('.')} (${String(read(path))}) is longer than upstream.deadline (${String(read(deadlinePath))})`;
  return [{ where: positions.ofValue(given), path: given, message }];
}

function samePortTwice(read: Read, positions: Positions): readonly Problem[] {
  const port = read(['operations', 'port']);
  // Port 0 is picked by the system, which never picks one twice.
  if (typeof port !== 'number' || port === 0 || port !== read(['listen', 'port'])) return [];
  if (!sameHost(read(['listen', 'host']), read(['operations', 'host']))) return [];
  const operations = ['operations', 'port'];
  const given = positions.findValue(operations) === undefined ? ['listen', 'port'] : operations;
  const message = `listen.port and operations.port are both ${port}`;
  return [{ where: positions.ofValue(given), path: given, message }];
}

function repeatedNames(read: Read, positions: Positions): readonly Problem[] {
  const first = new Map<string, number>();
  return upstreamsOf(read).flatMap((upstream, index) => {
    const name = findValue(upstream, ['name']);
    if (typeof name !== 'string') return [];
    const earlier = first.get(name);
    first.set(name, earlier ?? index);
    const path = ['upstreams', index, 'name'];
    const message = `the name "${name}" is already taken by upstreams[${earlier}]`;
    return earlier === undefined ? [] : [{ where: positions.ofValue(path), path, message }];
  });
}

/** An upstream that is the gateway itself would send every miss round in a circle. */
function ownAddress(read: Read, positions: Positions): readonly Problem[] {
  const port = read(['listen', 'port']);
  return upstreamsOf(read).flatMap((upstream, index) => {
    const text = findValue(upstream, ['url']);
    if (typeof text !== 'string' || !URL.canParse(text)) return [];
    const url = new URL(text);
    const upstreamPort = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
    const host = url.hostname.replace(/^\[|\]$/g, '');
    if (upstreamPort !== port || !isLocal(host) || !sameHost(host, read(['listen', 'host']))) return [];
    const path = ['upstreams', index, 'url'];
    const message = `is the gateway's own address: listen.port is ${port}, too (give the gateway another port)`;
    return [{ where: positions.ofValue(path), path, message }];
  });
}

function redisServers(read: Read, positions: Positions): readonly Problem[] {
  const path = ['cache', 'redis'];
  const redis = read(path);
  if (!isMapping(redis)) return [];
  const given = ['url', 'cluster', 'sentinel'].filter((key) => redis[key] !== undefined);
  if (given.length === 1) return [];
  const met = given.length === 0 ? 'none of them' : given.join(' and ');
  return [{ where: positions.ofKey(path), path, message: `needs exactly one of url, cluster, sentinel; got ${met}` }];
}

/** Two spellings of one name would be one header; some names mean something on the way to the node. */
function credentialNames(read: Read, positions: Positions): readonly Problem[] {
  return upstreamsOf(read).flatMap((upstream, index) => {
    const headers = findValue(upstream, ['headers']);
    const names = isMapping(headers) ? Object.keys(headers) : [];
    const seen = new Set<string>();
    return names.flatMap((name) => {
      const path = ['upstreams', index, 'headers', name];
      const isSecond = seen.has(name.toLowerCase());
      seen.add(name.toLowerCase());
      if (!isSecond && isFitForCredentials(name)) return [];
      const message = isSecond
        ? 'the header is given twice'
        : 'is no header for a credential: the gateway writes it itself';
      return [{ where: positions.ofKey(path), path, message }];
    });
  });
}

function upstreamsOf(read: Read): readonly unknown[] {
  const upstreams = read(['upstreams']);
  return Array.isArray(upstreams) ? upstreams : [];
}

/** True when sockets on both hosts would meet: equal, or one of them stands for every address. */
function sameHost(left: unknown, right: unknown): boolean {
  return left === right || isEvery(left) || isEvery(right) || (isLocal(left) && isLocal(right));
}

function isEvery(host: unknown): boolean {
  return host === '0.0.0.0' || host === '::';
}

function isLocal(host: unknown): boolean {
  return host === 'localhost' || host === '127.0.0.1' || host === '::1' || isEvery(host);
}
