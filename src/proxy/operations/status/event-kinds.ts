/**
 * Events that are worth remembering: a closed set. For each, the level and the bound of its log lines, the fields that
 * tell two of a kind apart, further fields that are remembered, and its sentence. No other field of a log line gets here:
 * causes may hold addresses.
 */

import { grouped } from './format.ts';

/** Level of the log line of an event. */
export type Level = 'info' | 'warn' | 'error';

/** Remembered fields of an event: short texts by name. */
export type EventFields = Readonly<Record<string, string>>;

/** Level, fields and wording of one kind of event. */
export interface EventKindRule {
  readonly level: Level;
  /** Fields that tell two events of the kind apart. */
  readonly about: readonly string[];
  /** Further fields that are remembered. */
  readonly also: readonly string[];
  /** One clause, without a full stop. Fields may be missing. */
  readonly text: (fields: EventFields) => string;
  /** Kinds that replace each other, as `node down` and `node usable`, share their log lines. Default: the kind. */
  readonly topic?: string;
  /** Log lines at once, about the same thing (`LineThrottle`). Default 10. */
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

/** The rules of all kinds of events. */
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
    (f) => `${f['upstream']} tells a head, ${f['head']}, that other nodes contradict`,
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
      `the ledger went back from ${f['before']} to ${f['after']}, as ${f['upstream']} tells: what was held is dropped`,
  ),
  'history replaced': rule(
    'error',
    [],
    ['version', 'head'],
    (f) => `nodes tell another history of the ledger at ${f['version']} than before: what was held is dropped`,
  ),
  outage: rule(
    'error',
    [],
    ['head'],
    (f) => `no node answers any more; the last head was ${f['head'] ?? 'never told'}`,
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
      `${f['upstream']} and ${f['other']} answer a pinned read differently${f['loser'] === undefined ? '' : `; a third node contradicts ${f['loser']}`}`, // Each line is evidence of another read, with digests that are nowhere else.
    { lines: 100 },
  ),
  'drop incomplete': rule('warn', [], [], () => 'a read that nodes disagree on could not be dropped everywhere'),
  purge: rule(
    'info',
    ['what'],
    ['memory'],
    (f) => `purged: ${f['what']}`, // An operator did it: each time is logged, with who asked for it.
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
  'config refused': rule('error', [], [], () => 'a config was refused: what was in force stays so'),
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
    (f) => `keys were read again${f['keys'] === undefined ? '' : `: ${f['keys']} are known`}`,
  ),
  'keys refused': rule(
    'error',
    [],
    [],
    () => 'keys cannot be used as they are: those of before stay, or some are left out',
  ),
  'keys away': rule('warn', [], [], () => 'keys in Redis cannot be read: those of before stay in force'),
  'worker lost': rule('error', ['worker'], ['againMs'], (f) => `${worker(f)} ended and is started again`),
  'worker back': rule('info', ['worker'], [], (f) => `${worker(f)} serves`),
} as const satisfies Readonly<Record<string, EventKindRule>>;

/** Name of a kind of event. */
export type EventKind = keyof typeof eventKinds;

/** Fields that tell events apart and are shown to nobody: the address of a server of Redis. */
const unshown: ReadonlySet<string> = new Set(['server']);

/** The fields of an event that may be published. */
export function withoutAddresses(fields: EventFields): EventFields {
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !unshown.has(name)));
}

function of(server: string | undefined): string {
  return server === undefined ? '' : ' node';
}

function worker({ worker: id }: EventFields): string {
  return id === undefined ? 'a worker' : `worker ${id}`;
}
