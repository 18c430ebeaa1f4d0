/**
 * The closed set of events: for each, level and bound of its log lines, the fields that are kept, and its text. No other
 * field of a log line is kept, because causes may hold addresses.
 */

/** Level of the log line of an event. */
export type Level = 'info' | 'warn' | 'error';

/** Kept fields of an event: short texts by name. */
export type EventFields = Readonly<Record<string, string>>;

/** Level, fields and text of one kind of event. */
interface EventKindRule {
  readonly level: Level;
  /** Kept fields that distinguish two events of the kind. */
  readonly about: readonly string[];
  /**
   * One clause, without a full stop. `{name}` is a field, `{name|text}` has a text for a missing one, and a part in
   * brackets is left out without its fields.
   */
  readonly text: string;
  /** Kept fields beside those of `about` and of the text. */
  readonly also?: readonly string[];
  /** Opposite kinds, such as `node down` and `node usable`, share the bound of their log lines. Default: the kind. */
  readonly topic?: string;
  /** Log lines at once about one thing (`Journal`). Default 10. */
  readonly lines?: number;
}

type Further = Pick<EventKindRule, 'also' | 'topic' | 'lines'>;

function rule(level: Level, about: readonly string[], text: string, further: Further = {}): EventKindRule {
  return { level, about, text, ...further };
}

const health = { topic: 'health' };
const redis = { topic: 'redis' };
const redisWrites = { topic: 'redis writes' };
const outages = { topic: 'outage' };
const limits = { topic: 'limits' };
const quotas = { topic: 'quotas' };
const usage = { topic: 'usage' };
// An audit trail, as of purges.
const drains = { lines: Infinity };
const discoveries = { topic: 'discovery' };
const renewals = { topic: 'renewals' };
const issuer = { topic: 'issuer' };
const ejections = { topic: 'ejections' };

const readClasses: EventFields = { head: 'reads of recent state', archive: 'reads of old state', view: 'views' };

const ejectionReasons: EventFields = {
  timeout: 'no answer in time',
  error: 'errors in a row',
  outpaced: 'far slower than others',
  refused: 'refused',
  'error share': 'many errors',
};

const kinds = {
  'node usable': rule('info', ['upstream'], '{upstream} answers', health),
  'node down': rule('warn', ['upstream'], '{upstream} is down[: {reason}]', health),
  'node of other dialect': rule('error', ['upstream'], '{upstream} is down: {reason} than most nodes', health),
  'dialect taken': rule(
    'info',
    [],
    'the dialect is {dialect}, by most nodes: dialect: {dialect} in the config pins it',
  ),
  'chain taken': rule('info', [], 'the chain is {chainId}, by most nodes: chainId: {chainId} in the config pins it'),
  'node foreign': rule(
    'error',
    ['upstream'],
    '{upstream} is not asked: it is of chain {chainId}, the fleet of {fleetChainId}',
    health,
  ),
  'chain doubted': rule(
    'warn',
    ['upstream'],
    'an answer of {upstream} is of chain {chainId}, the fleet of {fleetChainId}',
  ),
  'node suspect': rule('error', ['upstream'], '{upstream} reports a head, {head}, that other nodes contradict'),
  fork: rule('error', ['upstream'], '{upstream} has another history than {other} from version {version} on', {
    also: ['isExact'],
  }),
  'fork over': rule('info', ['upstream'], '{upstream} has the history of the others again', { also: ['version'] }),
  'address shared': rule(
    'warn',
    ['upstream'],
    'several nodes answer at the address of {upstream}, with different ledgers: list each node, or set discover: dns',
  ),
  'headers left out': rule('warn', ['upstream'], '{upstream} sends more headers of the ledger than clients get'),
  'node drained': rule('warn', ['upstream'], '{upstream} is drained: it gets no new requests', drains),
  'node resumed': rule('info', ['upstream'], '{upstream} is resumed: it gets requests again', drains),
  'nodes changed': rule('info', ['added', 'removed'], 'nodes of the fleet changed[, new: {added}][, gone: {removed}]'),
  'nodes not found': rule('warn', ['upstream'], '{upstream}: {reason}: the nodes found before stay', discoveries),
  'node found': rule('info', ['upstream'], '{upstream} was found by its name'),
  'nodes found': rule('info', ['upstream'], 'the nodes of {upstream} are found again', discoveries),
  ejected: rule(
    'warn',
    ['upstream', 'readClass'],
    '{upstream} is passed over for {readClass}: {reason}[ ({symptom})], first trial in {pauseMs}',
    ejections,
  ),
  'trial failed': rule(
    'warn',
    ['upstream', 'readClass'],
    '{upstream} stays passed over for {readClass}: a trial failed[ ({symptom})], the next in {pauseMs}',
    { topic: 'trials' },
  ),
  deferred: rule('warn', ['upstream'], '{upstream} limits or sheds requests: others are asked first', {
    also: ['pauseMs'],
  }),
  'allowance used up': rule('warn', ['upstream'], 'the allowance of {upstream} (maxRequestsPerSecond) is used up'),
  back: rule('info', ['upstream', 'readClass'], '{upstream} is asked again for {readClass}', ejections),
  'head lower': rule('warn', ['upstream'], '{upstream} reports ledger version {after}, after {before} before'),
  rollback: rule(
    'error',
    ['upstream'],
    'the ledger went back from {before} to {after}, by the report of {upstream}: the cache is dropped',
  ),
  'history replaced': rule(
    'error',
    [],
    'nodes report another history of the ledger at {version} than before: the cache is dropped',
    { also: ['head'] },
  ),
  'history lost': rule('error', [], 'versions {from} to {to} cannot be read without {upstreams}', { topic: 'lost' }),
  'history back': rule('info', [], 'the oldest versions can be read again', { topic: 'lost' }),
  outage: rule('error', [], 'no node answers any more; the last head was {head|never reported}', outages),
  'outage over': rule('info', [], 'a node answers again', { ...outages, also: ['head'] }),
  'store away': rule('warn', [], 'the store is not in full use[: {reason}]', { topic: 'store' }),
  'store back': rule('info', [], 'the store is in use', { topic: 'store' }),
  'redis away': rule(
    'warn',
    ['server'],
    'Redis, or one of its nodes, is not asked until it answers again[: {reason}]',
    redis,
  ),
  'redis back': rule('info', ['server'], 'Redis, or one of its nodes, answers again', redis),
  'redis read-only': rule('warn', ['server'], 'Redis, or one of its nodes, refuses writes[: {reason}]', redisWrites),
  'redis writable': rule('info', ['server'], 'Redis, or one of its nodes, takes writes again', redisWrites),
  'limits alone': rule('warn', ['server'], 'limits are not counted in Redis[ ({whenRedisIsDown})]', limits),
  'limits shared': rule('info', ['server'], 'limits are counted in Redis again', limits),
  'usage unkept': rule('error', [], 'usage is not kept on the disk[: {reason}]', usage),
  'usage kept': rule('info', [], 'usage is kept on the disk again', usage),
  'quotas unkept': rule('error', [], 'quotas are not kept on the disk[: {reason}]', quotas),
  'quotas kept': rule('info', [], 'quotas are kept on the disk again', quotas),
  'encode mismatch': rule('error', ['functionId'], '{upstream} encodes {functionId} differently: it is left to nodes'),
  'page mismatch': rule(
    'error',
    ['upstream'],
    '{upstream} has transaction {version} otherwise in a page than alone: pages are not used until the restart',
    { also: ['route'] },
  ),
  'encode unread': rule(
    'error',
    ['functionId'],
    '{upstream} cannot read a request of {functionId} that was encoded here',
  ),
  disagreement: rule(
    'error',
    ['upstream', 'other'],
    '{upstream} and {other} answer a pinned read differently[; a third node contradicts {loser}]',
    // Each line is evidence: the digests of another read are nowhere else.
    { also: ['route', 'version'], lines: 100 },
  ),
  'drop incomplete': rule('warn', [], 'a read that nodes disagree on could not be dropped everywhere'),
  // An audit trail: each purge is logged with the operator's address.
  purge: rule('info', ['what'], 'purged: {what}', { also: ['memory'], lines: Infinity }),
  'config applied': rule('info', ['keys'], 'another config is in force: {keys}'),
  'config unchanged': rule('info', [], 'the config was read again: nothing has changed that can change now'),
  'config restart': rule('warn', ['needsRestart'], 'keys of the config wait for a restart: {needsRestart}'),
  'config refused': rule('error', [], 'a config was refused[: {places}]: the one before stays in force'),
  certificate: rule('info', [], 'new connections are shown a new certificate, until {expires}'),
  'certificate refused': rule('error', [], 'new certificate files cannot be used[: {why}]: the old certificate stays'),
  renewed: rule('info', ['toward'], 'renewed credentials or certificates toward {toward} are in use', renewals),
  'renewal refused': rule(
    'error',
    ['toward'],
    'renewed credentials or certificates toward {toward} cannot be used[: {why}]: the ones before stay',
    renewals,
  ),
  'certificate ends': rule('warn', ['toward', 'file'], 'the {file} toward {toward} ends at {expires}'),
  'keys read': rule('info', [], 'keys were read again[: {keys} in all]'),
  'keys refused': rule('error', [], 'keys are malformed: the ones before stay in force, or some are left out'),
  'keys away': rule('warn', [], 'keys in Redis cannot be read: the ones before stay in force'),
  'issuer read': rule('info', [], 'keys of the issuer of tokens were read[: {keys} in all]'),
  'issuer away': rule('warn', [], 'keys of the issuer of tokens cannot be read[: {reason}]', issuer),
  'issuer back': rule('info', [], 'keys of the issuer of tokens are readable again', issuer),
  'worker lost': rule('error', ['worker'], 'worker[ {worker}] ended and is started again', { also: ['againMs'] }),
  'worker back': rule('info', ['worker'], 'worker {worker} serves'),
} as const satisfies Readonly<Record<string, EventKindRule>>;

/** Name of a kind of event. */
export type EventKind = keyof typeof kinds;

/** All kinds of events. */
export const eventKinds: Readonly<Record<EventKind, EventKindRule>> = kinds;

const placeholder = /\{(\w+)(?:\|([^}]*))?\}/g;

/** Names of the fields of a kind that are kept. */
export function keptNames(kind: EventKind): readonly string[] {
  const { about, text, also = [] } = eventKinds[kind];
  return [...about, ...[...text.matchAll(placeholder)].map(([, name = '']) => name), ...also];
}

/** The text of an event; fields may be missing. */
export function eventText(kind: EventKind, fields: EventFields): string {
  const valueOf = (name: string): string | undefined => {
    const value = fields[name];
    if (value === undefined) return undefined;
    if (name === 'pauseMs') return `${Math.round(Number(value) / 100) / 10} s`;
    if (name === 'readClass') return readClasses[value] ?? value;
    return kind === 'ejected' && name === 'reason' ? (ejectionReasons[value] ?? value) : value;
  };
  const fill = (text: string): string =>
    text.replace(placeholder, (_, name: string, missing = '') => valueOf(name) ?? String(missing));
  return fill(
    eventKinds[kind].text.replace(/\[([^\]]*)\]/g, (_, part: string) => {
      const names = [...part.matchAll(placeholder)].map(([, name = '']) => name);
      return names.every((name) => (fields[name] ?? '') !== '') ? part : '';
    }),
  );
}

/** A class of reads with the reason of its ejection: `reads of recent state (errors in a row: status 500)`. */
export function ejectionText(readClass: string, reason: string, symptom: string | undefined): string {
  const why = ejectionReasons[reason] ?? reason;
  return `${readClasses[readClass] ?? readClass} (${symptom === undefined ? why : `${why}: ${symptom}`})`;
}
