/**
 * Log lines of changes, when something changes all the time: a node whose every other answer fails goes down and up at
 * the pace of its requests. Each subject has a few lines at once and then one in ten seconds, which tells how many it
 * stands for; the last one is always told, so that the log ends with how things are. What is no change of that kind, but
 * a piece of evidence by itself, is told each time, or until it is very many.
 */
import { LineRate } from './line-rate.ts';

type Tell = (fields: object, message: string) => void;

/** The part of a logger that is used. */
export interface Lines {
  readonly debug: Tell;
  readonly info: Tell;
  readonly warn: Tell;
  readonly error: Tell;
}

type Level = 'info' | 'warn' | 'error';

interface Line {
  readonly level: Level;
  readonly fields: object;
  readonly message: string;
}

interface Subject {
  readonly rate: LineRate;
  /** The last of those that were not told. */
  withheld: Line | undefined;
  count: number;
}

const usual = { perSecond: 0.1, most: 10 };
const pauseMs = 1_000 / usual.perSecond;
/** Each such line is of another read, with digests that nobody can have again; they come from audits of a few reads. */
const ofDisagreements = { perSecond: 1, most: 100 };
const disagreement = /^two upstreams answer a pinned read differently\b/;
/** What operators have done is told each time, and by whom: they cannot do much of it at once. */
const ofOperators = /^purged$/;
/** More than there are nodes and messages. */
const mostSubjects = 1_000;
/** One subject in several messages: the last of them is how it is. */
const health = /^upstream is (?:unproven|usable|down|foreign)$/;

export class SteadyLog implements Lines {
  readonly #log: Lines;
  readonly #now: () => number;
  readonly #subjects = new Map<string, Subject>();

  /** `now`: monotonic, in milliseconds. */
  constructor(log: Lines, now: () => number = () => performance.now()) {
    this.#log = log;
    this.#now = now;
  }

  readonly debug: Tell = (fields, message) => this.#log.debug(fields, message);
  readonly info: Tell = (fields, message) => this.#tell({ level: 'info', fields, message });
  readonly warn: Tell = (fields, message) => this.#tell({ level: 'warn', fields, message });
  readonly error: Tell = (fields, message) => this.#tell({ level: 'error', fields, message });

  #tell(line: Line): void {
    if (ofOperators.test(line.message)) return this.#log[line.level](line.fields, line.message);
    const subject = this.#subjectOf(line);
    if (subject.withheld === undefined && subject.rate.take()) {
      this.#log[line.level](line.fields, line.message);
      return;
    }
    if (subject.withheld === undefined) this.#tellLater(subject);
    subject.withheld = line;
    subject.count += 1;
  }

  #tellLater(subject: Subject): void {
    setTimeout(() => {
      const { withheld, count } = subject;
      subject.withheld = undefined;
      subject.count = 0;
      if (withheld === undefined) return;
      subject.rate.take();
      this.#log[withheld.level]({ ...withheld.fields, times: count }, withheld.message);
    }, pauseMs).unref();
  }

  #subjectOf({ fields, message }: Line): Subject {
    const { upstream = '', other = '' } = fields as { readonly upstream?: string; readonly other?: string };
    const name = `${upstream} ${other} ${health.test(message) ? 'health' : message}`;
    const known = this.#subjects.get(name);
    if (known !== undefined) return known;
    if (this.#subjects.size >= mostSubjects) this.#subjects.clear();
    const subject = {
      rate: new LineRate(disagreement.test(message) ? ofDisagreements : usual, this.#now),
      withheld: undefined,
      count: 0,
    };
    this.#subjects.set(name, subject);
    return subject;
  }
}
