/**
 * The closed set of events: for each, level and bound of its log lines, the fields that are kept, and its text. No other
 * field of a log line is kept, because causes may hold addresses.
 */
import { grouped } from './format.ts';

/** Level of the log line of an event. */
export type Level = 'info' | 'warn' | 'error';

/** Kept fields of an event: short texts by name. */
export type EventFields = Readonly<Record<string, string>>;

/** Level, fields and text of one kind of event. */
export interface EventKindRule {
  readonly level: Level;
  /** Kept fields that distinguish two events of the kind. */
  readonly about: readonly string[];
  /** Further kept fields. */
  readonly also: readonly string[];
  /** One clause, without a full stop. Fields may be missing. */
  readonly text: (fields: EventFields) => string;
  /** Opposite kinds, such as `node down` and `node usable`, share the bound of their log lines. Default: the kind. */
  readonly topic?: string;
  /** Log lines at once about one thing (`LineThrottle`). Default 10. */
  readonly lines?: number;
}

const rule = (
  level: Level,
  about: readonly string[],
  also: readonly string[],
  text: EventKindRule['text'],
  bounds: Pick<EventKindRule, 'topic' | 'lines'> = {},
): EventKindRule => ({ level, about, also, text, ...bounds });

const health = { topic: 'health' };
const redis = { topic: 'redis' };
const redisWrites = { topic: 'redis writes' };
const outages = { topic: 'outage' };
const limits = { topic: 'limits' };
const ejections = { topic: 'ejections' };

const classes: Readonly<Record<string, string>> = {
  head: 'reads of recent state',
  archive: 'reads of old state',
  view: 'views',
};

function readsOf(readClass: string | undefined): string {
  return classes[readClass ?? ''] ?? readClass ?? 'reads';
}

function seconds(ms: string | undefined): string {
  return `${Math.round(Number(ms ?? 0) / 100) / 10} s`;
}

/** All kinds of events. */
export const eventKinds = {
  'node usable': rule('info', ['upstream'], [], (f) => `${f['upstream']} answers`, health),
  'node down': rule('warn', ['upstream'], ['health'], (f) => `${f['upstream']} is ${f['health'] ?? 'down'}`, health),
  'node foreign': rule(
    'error',
    ['upstream'],
    ['chainId', 'fleetChainId'],
    (f) => `${f['upstream']} is not asked: it is of chain ${f['chainId']}, the fleet of ${f['fleetChainId']}`,
    health,
  ),
  'chain doubted': rule(
    'warn',
    ['upstream'],
    ['chainId', 'fleetChainId'],
    (f) => `an answer of ${f['upstream']} is of chain ${f['chainId']}, the fleet of ${f['fleetChainId']}`,
  ),
  'node suspect': rule(
    'error',
    ['upstream'],
    ['head'],
    (f) => `${f['upstream']} reports a head, ${f['head']}, that other nodes contradict`,
  ),
  'headers left out': rule(
    'warn',
    ['upstream'],
    [],
    (f) => `${f['upstream']} sends more headers of the ledger than clients get`,
  ),
  'nodes changed': rule('info', ['added', 'removed'], [], (f) =>
    [
      f['added'] === '' ? '' : `the fleet has new nodes: ${f['added']}`,
      f['removed'] === '' ? '' : `nodes have left the fleet: ${f['removed']}`,
    ]
      .filter(Boolean)
      .join('; '),
  ),
  ejected: rule(
    'warn',
    ['upstream', 'readClass'],
    ['reason', 'pauseMs'],
    (f) => `${f['upstream']} is passed over for ${readsOf(f['readClass'])}: ${f['reason']}, ${seconds(f['pauseMs'])}`,
    ejections,
  ),
  deferred: rule(
    'warn',
    ['upstream'],
    ['pauseMs'],
    (f) => `${f['upstream']} limits or sheds requests: others are asked first`,
  ),
  'allowance used up': rule(
    'warn',
    ['upstream'],
    [],
    (f) => `the allowance of ${f['upstream']} (maxRequestsPerSecond) is used up`,
  ),
  back: rule(
    'info',
    ['upstream', 'readClass'],
    [],
    (f) => `${f['upstream']} is asked again for ${readsOf(f['readClass'])}`,
    ejections,
  ),
  'edge moved': rule(
    'info',
    ['upstream'],
    ['from', 'to', 'steps', 'versions'],
    (f) =>
      `the edge of ${f['upstream']} moved from ${grouped(f['from'])} to ${grouped(f['to'])}${f['steps'] === '1' ? '' : `, ${f['steps']} steps`}`,
  ),
  rollback: rule(
    'error',
    ['upstream'],
    ['before', 'after'],
    (f) =>
      `the ledger went back from ${f['before']} to ${f['after']}, by the report of ${f['upstream']}: the cache is dropped`,
  ),
  'history replaced': rule(
    'error',
    [],
    ['version', 'head'],
    (f) => `nodes report another history of the ledger at ${f['version']} than before: the cache is dropped`,
  ),
  outage: rule(
    'error',
    [],
    ['head'],
    (f) => `no node answers any more; the last head was ${f['head'] ?? 'never reported'}`,
    outages,
  ),
  'outage over': rule('info', [], ['head'], () => 'a node answers again', outages),
  'redis away': rule(
    'warn',
    ['server'],
    [],
    (f) => `Redis${of(f['server'])} is left alone until it answers again`,
    redis,
  ),
  'redis back': rule('info', ['server'], [], (f) => `Redis${of(f['server'])} answers again`, redis),
  'redis read-only': rule('warn', ['server'], [], (f) => `Redis${of(f['server'])} refuses writes`, redisWrites),
  'redis writable': rule('info', ['server'], [], (f) => `Redis${of(f['server'])} takes writes again`, redisWrites),
  'limits alone': rule(
    'warn',
    ['server'],
    ['whenRedisIsDown'],
    (f) => `limits are not counted in Redis${f['whenRedisIsDown'] === undefined ? '' : ` (${f['whenRedisIsDown']})`}`,
    limits,
  ),
  'limits shared': rule('info', ['server'], [], () => 'limits are counted in Redis again', limits),
  'encode mismatch': rule(
    'error',
    ['functionId'],
    ['upstream'],
    (f) => `${f['upstream']} encodes ${f['functionId']} differently: it is left to nodes`,
  ),
  'encode unread': rule(
    'error',
    ['functionId'],
    ['upstream'],
    (f) => `${f['upstream']} cannot read a request of ${f['functionId']} that was encoded here`,
  ),
  disagreement: rule(
    'error',
    ['upstream', 'other'],
    ['route', 'version', 'loser'],
    (f) =>
      `${f['upstream']} and ${f['other']} answer a pinned read differently${f['loser'] === undefined ? '' : `; a third node contradicts ${f['loser']}`}`,
    // Each line is evidence: the digests of another read are nowhere else.
    { lines: 100 },
  ),
  'drop incomplete': rule('warn', [], [], () => 'a read that nodes disagree on could not be dropped everywhere'),
  purge: rule(
    'info',
    ['what'],
    ['memory'],
    (f) => `purged: ${f['what']}`,
    // An audit trail: each purge is logged with the operator's address.
    { lines: Infinity },
  ),
  'config applied': rule('info', ['keys'], [], (f) => `another config is in force: ${f['keys']}`),
  'config unchanged': rule('info', [], [], () => 'the config was read again: nothing has changed that can change now'),
  'config restart': rule(
    'warn',
    ['needsRestart'],
    [],
    (f) => `keys of the config wait for a restart: ${f['needsRestart']}`,
  ),
  'config refused': rule('error', [], [], () => 'a config was refused: the one before stays in force'),
  certificate: rule(
    'info',
    [],
    ['expires'],
    (f) => `new connections are shown a new certificate, until ${f['expires']}`,
  ),
  'certificate refused': rule('error', [], [], () => 'new certificate files cannot be used: the old certificate stays'),
  'keys read': rule(
    'info',
    [],
    ['keys'],
    (f) => `keys were read again${f['keys'] === undefined ? '' : `: ${f['keys']} in all`}`,
  ),
  'keys refused': rule(
    'error',
    [],
    [],
    () => 'keys are malformed: the ones before stay in force, or some are left out',
  ),
  'keys away': rule('warn', [], [], () => 'keys in Redis cannot be read: the ones before stay in force'),
  'worker lost': rule('error', ['worker'], ['againMs'], (f) => `${worker(f)} ended and is started again`),
  'worker back': rule('info', ['worker'], [], (f) => `${worker(f)} serves`),
} as const satisfies Readonly<Record<string, EventKindRule>>;

/** Name of a kind of event. */
export type EventKind = keyof typeof eventKinds;

/** Fields that distinguish events and are not published: the address of a Redis server. */
const unpublished: ReadonlySet<string> = new Set(['server']);

/** The fields of an event that may be published. */
export function withoutAddresses(fields: EventFields): EventFields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !unpublished.has(name)));
}

function of(server: string | undefined): string {
  return server === undefined ? '' : ' node';
}

function worker({ worker: id }: EventFields): string {
  return id === undefined ? 'a worker' : `worker ${id}`;
}
