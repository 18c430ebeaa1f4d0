/** The journal: changes of state, logged within bounds, and kept for the status page. */
import { eventKinds, eventText, keptNames, type EventFields, type EventKind, type Level } from './event-kinds.ts';

type Write = (fields: object, message: string) => void;

/** The part of pino's logger that the journal calls. */
type LineLog = Readonly<Record<'debug' | Level, Write>>;

/** One change of state: plain data, so that a worker can send it. */
export interface StatusEvent {
  /** Unix time in milliseconds. */
  readonly atMs: number;
  readonly kind: EventKind;
  readonly fields: EventFields;
  /** Processes that reported it; absent: one. */
  readonly workers?: number;
}

interface LogLine {
  readonly level: Level;
  readonly fields: object;
  readonly message: string;
}

interface ThrottledSubject {
  /** Lines left before the throttle withholds. */
  left: number;
  /** The last withheld line. */
  withheld: LogLine | undefined;
  /** Number of withheld lines. */
  times: number;
}

const pauseMs = 10_000;
/** Beyond this number all subjects of a kind share one bound of log lines. */
const mostSubjects = 1_000;
const mostEvents = 200;
/** Events of one kind about one thing: a flapping node leaves room for other events. */
const mostAlike = 20;
/** Characters of a field, so that an event is one line. */
const longestField = 200;
const mostListed = 10;
/** Log lines about one thing at once. */
const usualLines = 10;
/** Equal events of several workers within this time are one event. */
const sameMs = 2_000;

/** Logs changes of state, and keeps the last ones. */
export class Journal {
  readonly #log: LineLog;
  readonly #subjects = new Map<string, ThrottledSubject>();
  readonly #now: () => number;
  /** Oldest first; events about the same thing have one `name`. */
  readonly #events: { readonly event: StatusEvent; readonly name: string }[] = [];

  /** `now`: Unix time in milliseconds. */
  constructor(log: LineLog, now: () => number = Date.now) {
    this.#log = log;
    this.#now = now;
  }

  /** Logs `fields` at the level of the kind, and keeps those fields of `kept` that the kind lists. */
  record(kind: EventKind, fields: object, message: string, kept = fields): void {
    const { level, about, topic = kind, lines = usualLines } = eventKinds[kind];
    const given = keptFields(kind, fields);
    const name = JSON.stringify(about.map((field) => given[field]));
    this.#write({ level, fields, message }, topic, name, lines);
    this.note(kind, kept);
  }

  /** Keeps a change that is no line of the log. */
  note(kind: EventKind, fields: object): void {
    const event = { atMs: this.#now(), kind, fields: keptFields(kind, fields) };
    const name = nameOf(event);
    const isAlike = (known: { readonly name: string }): boolean => known.name === name;
    if (this.#events.filter(isAlike).length >= mostAlike) this.#events.splice(this.#events.findIndex(isAlike), 1);
    this.#events.push({ event, name });
    if (this.#events.length > mostEvents) this.#events.shift();
  }

  /** Logs details that are no change of state. */
  debug(fields: object, message: string): void {
    this.#log.debug(fields, message);
  }

  /** The last 200, at most 20 of a kind about one thing, oldest first. */
  get events(): readonly StatusEvent[] {
    return this.#events.map(({ event }) => event);
  }

  /** The journals of several processes as one, oldest first; equal events of two seconds become one, at the first's time. */
  static merge(journals: readonly (readonly StatusEvent[])[]): readonly StatusEvent[] {
    const all = journals
      .flatMap((events, reporter) => events.map((event) => ({ event, reporter })))
      .sort((one, other) => one.event.atMs - other.event.atMs);
    const merged: { event: StatusEvent; readonly reporters: Set<number> }[] = [];
    const latest = new Map<string, (typeof merged)[number]>();
    for (const { event, reporter } of all) {
      const name = nameOf(event);
      const known = latest.get(name);
      if (known !== undefined && event.atMs - known.event.atMs <= sameMs && !known.reporters.has(reporter)) {
        known.reporters.add(reporter);
      } else {
        const group = { event, reporters: new Set([reporter]) };
        merged.push(group);
        latest.set(name, group);
      }
    }
    return merged.slice(-mostEvents).map(({ event, reporters }) => withReporters(event, reporters.size));
  }

  /**
   * Bounds the log lines of one subject, such as the health of one node: `most` at once, then one in ten seconds, whose
   * `times` counts the lines it stands for. The last line is always written, so that the log ends with the present state.
   */
  #write(line: LogLine, topic: string, about: string, most: number): void {
    const own = `${topic} ${about}`;
    const name = this.#subjects.has(own) || this.#subjects.size < mostSubjects ? own : topic;
    let subject = this.#subjects.get(name);
    if (subject === undefined) {
      subject = { left: most, withheld: undefined, times: 0 };
      this.#subjects.set(name, subject);
      this.#wait(name, subject);
    }
    if (subject.left > 0) {
      subject.left -= 1;
      this.#log[line.level](line.fields, line.message);
    } else {
      subject.withheld = line;
      subject.times += 1;
    }
  }

  #wait(name: string, subject: ThrottledSubject): void {
    setTimeout(() => {
      const { withheld, times } = subject;
      if (withheld === undefined) {
        this.#subjects.delete(name);
        return;
      }
      subject.withheld = undefined;
      subject.times = 0;
      this.#log[withheld.level]({ ...withheld.fields, times }, withheld.message);
      this.#wait(name, subject);
    }, pauseMs).unref();
  }
}

/** The fields that the kind lists, as short texts. */
function keptFields(kind: EventKind, fields: object): EventFields {
  const given = fields as Readonly<Record<string, unknown>>;
  const kept: Record<string, string> = {};
  for (const name of keptNames(kind)) {
    const value = given[name];
    if (value !== undefined && value !== null) kept[name] = textOf(value);
  }
  return kept;
}

function textOf(value: unknown): string {
  const isList = Array.isArray(value);
  const text = isList
    ? value.slice(0, mostListed).join(', ') + (value.length > mostListed ? ', …' : '')
    : String(value);
  return text.length > longestField ? `${text.slice(0, longestField)}…` : text;
}

function withReporters(event: StatusEvent, workers: number): StatusEvent {
  return workers === 1 ? event : { ...event, workers };
}

/** Equal for events of one kind about one thing. */
function nameOf({ kind, fields }: StatusEvent): string {
  const { about } = eventKinds[kind];
  return JSON.stringify([kind, ...about.map((name) => fields[name])]);
}

/** An event for people: times are ISO 8601; no address of a Redis server, which only distinguishes events. */
export function describeEvent({ atMs, kind, fields, workers }: StatusEvent) {
  const { server: _, ...published } = fields;
  return {
    at: new Date(atMs).toISOString(),
    kind,
    level: eventKinds[kind].level,
    text: eventText(kind, fields),
    fields: published,
    ...(workers === undefined ? {} : { workers }),
  };
}
