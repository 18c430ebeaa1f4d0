/**
 * Bounds the log lines of one subject, such as the health of one node: a few at once, then one in ten seconds, whose
 * `times` counts the lines it stands for. The last line is always written, so that the log ends with the present state.
 */
import type { Level } from './event-kinds.ts';

type Write = (fields: object, message: string) => void;

/** The part of pino's logger that the journal calls. */
export type LineLog = Readonly<Record<'debug' | Level, Write>>;

/** A log line before it is written. */
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
/** Beyond this number all subjects of a kind share one bound. */
const mostSubjects = 1_000;

/** The throttle of one log; at most 1,000 subjects have a bound of their own. */
export class LineThrottle {
  readonly #log: LineLog;
  readonly #subjects = new Map<string, ThrottledSubject>();

  constructor(log: LineLog) {
    this.#log = log;
  }

  /** Writes `line` now, or its last successor later. Kinds are a closed set; `most` bounds a subject's lines at once. */
  write(line: LogLine, kind: string, about: string, most: number): void {
    const own = `${kind} ${about}`;
    const name = this.#subjects.has(own) || this.#subjects.size < mostSubjects ? own : kind;
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
