import { type CancelSignal, CancelToken, GatewayError } from '../ledger/index.ts';
import type { Span } from '../metrics/index.ts';
import { textHash } from './key.ts';

/** One caller of a load. */
export interface FlightCaller {
  /** A caller whose signal aborts stops waiting. */
  readonly signal: CancelSignal;
  /** Fair-queueing key. */
  readonly client: string;
  /** Parent of the load's span where the caller begins the load, or else of a wait that links to it. */
  readonly span?: Span | undefined;
}

type Load<T> = (signal: CancelSignal, span: Span | undefined) => Promise<T>;

const nothing = (): void => undefined;

/** A load in flight, and its callers in the order of arrival: the first one leads. */
class Flight<T> {
  readonly key: string;
  /** See `FlightTable`. */
  readonly row: number;
  next: Flight<T> | undefined;
  readonly span: Span | undefined;
  readonly stop = new CancelToken();
  /** One that leaves is replaced by `undefined`: thousands that leave at once cost no more each than one. */
  readonly waiters: (Waiter<T> | undefined)[] = [];
  /** Waiters that have not left. */
  waiting = 0;

  constructor(key: string, row: number, span: Span | undefined) {
    this.key = key;
    this.row = row;
    this.span = span;
  }
}

class Waiter<T> {
  readonly caller: FlightCaller;
  readonly load: Load<T>;
  readonly land: (value: T, isLeader: boolean) => void;
  readonly fail: (error: unknown) => void;
  /** Flights that it has joined. */
  joined = 0;
  /** Its index in the flight. */
  at = 0;
  wait: Span | undefined;
  onAbort: () => void = nothing;

  constructor(
    caller: FlightCaller,
    load: Load<T>,
    land: (value: T, isLeader: boolean) => void,
    fail: (error: unknown) => void,
  ) {
    this.caller = caller;
    this.load = load;
    this.land = land;
    this.fail = fail;
  }
}

const role = 'ledgergate.flight.role';
/** Loads that one caller joins, one after another. */
const mostJoined = 3;

/** Single flight: concurrent loads of one key share one upstream read. */
export class Coalescer<T> {
  readonly #flights = new FlightTable<T>();

  /**
   * Runs `load` for the first caller of `key`; later callers wait for the same outcome. Resolves to `resultOf` the value;
   * `isLeader` is true for exactly one caller. The load aborts when its last caller leaves: a leader that hangs up does not
   * fail its followers, the oldest of which becomes the leader. After a load that failed by a bound of its leader's client
   * alone (`GatewayError.client`), the first follower of another client begins its own.
   */
  run<R>(key: string, caller: FlightCaller, load: Load<T>, resultOf: (value: T, isLeader: boolean) => R): Promise<R> {
    return new Promise((resolve, reject) => {
      const land = (value: T, isLeader: boolean): void => resolve(resultOf(value, isLeader));
      this.#join(key, new Waiter(caller, load, land, reject));
    });
  }

  #join(key: string, waiter: Waiter<T>): void {
    const { caller, load } = waiter;
    const row = rowOf(key);
    const running = this.#flights.find(key, row);
    const span = caller.span?.begin('flight', {
      link: running?.span,
      attributes: { [role]: running === undefined ? 'leader' : 'follower' },
    });
    const flight = running ?? new Flight<T>(key, row, span);
    waiter.joined += 1;
    waiter.wait = running && span;
    waiter.onAbort = () => this.#leave(flight, waiter);
    waiter.at = flight.waiters.push(waiter) - 1;
    flight.waiting += 1;
    if (running === undefined) {
      this.#flights.add(flight);
      this.#fly(flight, load);
    }
    if (caller.signal.aborted) waiter.onAbort();
    else caller.signal.addEventListener('abort', waiter.onAbort, { once: true });
  }

  #fly(flight: Flight<T>, load: Load<T>): void {
    const { span, stop } = flight;
    begun(() => load(stop, span)).then(
      (value) => {
        this.#end(flight);
        span?.end();
        let isLeader = true;
        for (const waiter of waitersOf(flight)) {
          release(waiter);
          waiter.land(value, isLeader);
          isLeader = false;
        }
      },
      (error: unknown) => {
        this.#end(flight);
        span?.fail(stop.aborted ? 'abandoned' : 'failed');
        span?.end();
        for (const waiter of waitersOf(flight)) this.#fail(flight, waiter, error);
      },
    );
  }

  #fail({ key }: Flight<T>, waiter: Waiter<T>, error: unknown): void {
    release(waiter);
    const refused = error instanceof GatewayError ? error.client : undefined;
    const isOfAnother = refused !== undefined && refused !== waiter.caller.client;
    if (isOfAnother && waiter.joined < mostJoined) this.#join(key, waiter);
    else waiter.fail(error);
  }

  #leave(flight: Flight<T>, waiter: Waiter<T>): void {
    release(waiter);
    flight.waiters[waiter.at] = undefined;
    flight.waiting -= 1;
    waiter.fail(CancelToken.reasonOf(waiter.caller.signal));
    if (flight.waiting > 0) return;
    this.#end(flight);
    flight.stop.abort(new Error('the last caller of this read has left'));
  }

  /** Later callers must not join a load that has ended or aborts. */
  #end(flight: Flight<T>): void {
    this.#flights.remove(flight);
  }
}

const rows = 4096;
/** One for each process, because clients choose parts of keys: none can choose its row. */
const seed = Math.trunc(Math.random() * 2 ** 32);

function rowOf(key: string): number {
  const hash = textHash(key, 0, key.length, seed);
  return (hash ^ (hash >>> 16)) & (rows - 1);
}

/**
 * Flights by key, chained in rows. A Map that gains as many keys as it loses has a new table every few hundred, and V8
 * links each table to the next: one in the old generation retains all later ones, with their flights and all that these
 * refer to, until the next full collection.
 */
class FlightTable<T> {
  readonly #rows: (Flight<T> | undefined)[] = Array.from({ length: rows });

  find(key: string, row: number): Flight<T> | undefined {
    let flight = this.#rows[row];
    while (flight !== undefined && flight.key !== key) flight = flight.next;
    return flight;
  }

  add(flight: Flight<T>): void {
    flight.next = this.#rows[flight.row];
    this.#rows[flight.row] = flight;
  }

  /** To no effect for a flight that was removed. */
  remove(flight: Flight<T>): void {
    const { row, next } = flight;
    let before = this.#rows[row];
    if (before === flight) this.#rows[row] = next;
    else {
      while (before !== undefined && before.next !== flight) before = before.next;
      if (before !== undefined) before.next = next;
    }
    flight.next = undefined;
  }
}

/** A promise of `begin`, even where that throws. */
function begun<T>(begin: () => Promise<T>): Promise<T> {
  try {
    return begin();
  } catch (error) {
    return Promise.reject(error);
  }
}

/** The callers that have not left. A copy, because one may begin another flight. */
function waitersOf<T>({ waiters }: Flight<T>): readonly Waiter<T>[] {
  return waiters.filter((waiter) => waiter !== undefined);
}

function release<T>({ caller, onAbort, wait }: Waiter<T>): void {
  wait?.end();
  caller.signal.removeEventListener('abort', onAbort);
}
