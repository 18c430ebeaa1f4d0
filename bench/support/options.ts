/** The parts of `npm run bench`, and their flags. */
import { parseArgs } from 'node:util';

export interface BenchOptions {
  /** How often all servers are started afresh: what the compiler makes of a server differs from process to process. */
  readonly starts: number;
  /** Rounds per start. */
  readonly rounds: number;
  /** Length of one measurement. */
  readonly seconds: number;
  readonly connections: number;
  /** Load before the first round, in seconds: a cold server costs half as much again per request. */
  readonly warmUp: number;
}

export interface Flags {
  /** Names of parts; empty for all. */
  readonly only: readonly string[];
  /** Loads whose title has one of these texts, parted by semicolons. */
  readonly loads: string;
  /** Short rounds: whether it runs, not what it gives. */
  readonly isQuick: boolean;
  /** Whether RESULTS.md is written. */
  readonly isWritten: boolean;
  readonly given: Readonly<Partial<BenchOptions>>;
  readonly mix: MixOptions;
}

/** Flags of the part `mix` alone. */
export interface MixOptions {
  /** Requests a second. */
  readonly rate?: number;
  /** A closed loop of so many requests in each round, in place of a rate. */
  readonly requests?: number;
  readonly seed?: number;
  /** Requests, ledger and staleness are so many times slower: the same shares, on a machine that is busy. */
  readonly slow?: number;
  /** Bound of reads of the newest state, in ms, ahead of `slow`. Default: the gateway's. */
  readonly staleness?: number;
  /** Folder of another checkout, with its node_modules, whose package is measured beside this one's. */
  readonly against?: string;
  /** Whether a gateway that always follows the ledger is measured beside one that never does. */
  readonly follow: boolean;
}

/** One of the comparisons that `npm run bench` makes. */
export interface Part {
  /** Name in `--only`. */
  readonly name: string;
  /** Heading of its section in RESULTS.md. */
  readonly heading: string;
  /** Starts and stops its servers; text and tables of its section. Throws the names of programs that are missing. */
  run(flags: Flags): Promise<string>;
}

const usual: BenchOptions = { starts: 3, rounds: 5, seconds: 2, connections: 64, warmUp: 6 };
const quick: Omit<BenchOptions, 'connections'> = { starts: 1, rounds: 1, seconds: 1, warmUp: 1 };

/** Reads the command line. Throws for what is no whole number above 0. */
export function readFlags(): Flags {
  const number = { type: 'string' } as const;
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      loads: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      write: { type: 'boolean', default: false },
      starts: number,
      rounds: number,
      seconds: number,
      connections: number,
      'warm-up': number,
      rate: number,
      requests: number,
      seed: number,
      slow: number,
      staleness: number,
      against: { type: 'string' },
      follow: { type: 'boolean', default: false },
    },
  });
  const texts = { ...values, warmUp: values['warm-up'] };
  const given: { -readonly [Name in keyof BenchOptions]?: number } = {};
  for (const name of Object.keys(usual) as (keyof BenchOptions)[]) {
    const text = texts[name];
    if (text !== undefined) given[name] = wholeNumber(name, text);
  }
  const { only, loads, quick: isQuick, write, against, follow } = values;
  const mix: { -readonly [Name in keyof MixOptions]: MixOptions[Name] } =
    against === undefined ? { follow } : { follow, against };
  for (const name of ['rate', 'requests', 'seed', 'slow', 'staleness'] as const) {
    const text = values[name];
    if (text !== undefined) mix[name] = wholeNumber(name, text);
  }
  return { only: only.split(',').filter(Boolean), loads, isQuick, isWritten: write || !isQuick, given, mix };
}

function wholeNumber(name: string, text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error(`${name} is no whole number above 0: ${text}`);
  return Number(text);
}

/** Whether a load with this title is to be measured. */
export function isAsked({ loads }: Flags, title: string): boolean {
  return loads.split(';').some((text) => title.includes(text));
}

/** Defaults of a part; the command line overrides them. */
export function optionsOf({ isQuick, given }: Flags, defaults: Partial<BenchOptions> = {}): BenchOptions {
  return { ...usual, ...defaults, ...(isQuick ? quick : {}), ...given };
}
