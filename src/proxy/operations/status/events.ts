/** The journal: what changed lately, logged and remembered in one step. */
import { eventKinds, type EventFields, type EventKind, type EventKindRule, type Level } from './event-kinds.ts';
import { LineThrottle, type LineLog } from './line-throttle.ts';

/** Plain data, so that it can come from another process. */
export interface StatusEvent {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly kind: EventKind;
  readonly fields: EventFields;
  /** Processes that told it; absent: one. */
  readonly workers?: number;
}

const mostEvents = 200;
/** Most events of one kind about one thing: a node that comes and goes all the time leaves room for other events. */
const mostAlike = 20;
/** Longer texts are cut: an event is one line. */
const longestField = 200;
const mostListed = 10;
/** Log lines of one thing at once. */
const usualLines = 10;
/** Equal events that several workers report within this time are one event. */
const sameMs = 2_000;

/** Logs changes of state, and remembers the last ones. */
export class Journal {
  readonly #log: LineLog;
  readonly #throttle: LineThrottle;
  readonly #now: () => number;
  /** Oldest first; `name`: equal for those that are alike. */
  readonly #events: { readonly event: StatusEvent; readonly name: string }[] = [];

  /** `now`: Unix time in milliseconds. */
  constructor(log: LineLog, now: () => number = Date.now) {
    this.#log = log;
    this.#throttle = new LineThrottle(log);
    this.#now = now;
  }

  /** Logs a change, at the level of its kind, and remembers what the kind remembers of `known`. */
  record(kind: EventKind, fields: object, message: string, known = fields): void {
    const { level, about, topic = kind, lines = usualLines }: EventKindRule = eventKinds[kind];
    const given = shownFields(kind, fields);
    const name = JSON.stringify(about.map((field) => given[field]));
    this.#throttle.write({ level, fields, message }, topic, name, lines);
    this.note(kind, known);
  }

  /** Remembers a change that is no line of the log. */
  note(kind: EventKind, fields: object): void {
    this.#remember({ atMs: this.#now(), kind, fields: shownFields(kind, fields) });
  }

  /** Logs what is no change of state. */
  debug(fields: object, message: string): void {
    this.#log.debug(fields, message);
  }

  /** The last 200, of those that are alike the last 20, oldest first. */
  get events(): readonly StatusEvent[] {
    return this.#events.map(({ event }) => event);
  }

  #remember(event: StatusEvent): void {
    const name = nameOf(event);
    const isAlike = (known: { readonly name: string }): boolean => known.name === name;
    if (this.#events.filter(isAlike).length >= mostAlike) this.#events.splice(this.#events.findIndex(isAlike), 1);
    this.#events.push({ event, name });
    if (this.#events.length > mostEvents) this.#events.shift();
  }
}

/** The level of an event's log line. */
export function levelOf(kind: EventKind): Level {
  return eventKinds[kind].level;
}

/** The event in words. */
export function eventText({ kind, fields }: StatusEvent): string {
  return eventKinds[kind].text(fields);
}

/** The fields that the kind remembers, as short texts. */
function shownFields(kind: EventKind, fields: object): EventFields {
  const { about, also }: EventKindRule = eventKinds[kind];
  const given = fields as Readonly<Record<string, unknown>>;
  const shown: Record<string, string> = {};
  for (const name of [...about, ...also]) {
    const value = given[name];
    if (value !== undefined && value !== null) shown[name] = textOf(value);
  }
  return shown;
}

function textOf(value: unknown): string {
  const isList = Array.isArray(value);
  const text = isList
    ? value.slice(0, mostListed).join(', ') + (value.length > mostListed ? ', …' : '')
    : String(value);
  return text.length > longestField ? `${text.slice(0, longestField)}…` : text;
}

/**
 * The journals of several processes as one, oldest first: an event that others report as well within two seconds
 * is one, at the time of the first.
 */
export function mergeEvents(told: readonly (readonly StatusEvent[])[]): readonly StatusEvent[] {
  const all = told
    .flatMap((events, teller) => events.map((event) => ({ event, teller })))
    .sort((one, other) => one.event.atMs - other.event.atMs);
  const merged: { event: StatusEvent; readonly tellers: Set<number> }[] = [];
  const latest = new Map<string, (typeof merged)[number]>();
  for (const { event, teller } of all) {
    const name = nameOf(event);
    const known = latest.get(name);
    if (known !== undefined && event.atMs - known.event.atMs <= sameMs && !known.tellers.has(teller)) {
      known.tellers.add(teller);
    } else {
      const group = { event, tellers: new Set([teller]) };
      merged.push(group);
      latest.set(name, group);
    }
  }
  return merged.slice(-mostEvents).map(({ event, tellers }) => toldBy(event, tellers.size));
}

function toldBy(event: StatusEvent, workers: number): StatusEvent {
  return workers === 1 ? event : { ...event, workers };
}

/** Two events with one name are about the same. */
function nameOf({ kind, fields }: StatusEvent): string {
  const { about }: EventKindRule = eventKinds[kind];
  return JSON.stringify([kind, ...about.map((name) => fields[name])]);
}
