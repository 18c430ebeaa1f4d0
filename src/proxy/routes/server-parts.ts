/** The parts that answer client requests, shared by all transports. */
import type { MemoryCache } from '../../cache/memory/memory.ts';
import type { Fleet } from '../../upstream/fleet.ts';
import type { AccessControl } from './access-control.ts';
import type { Cors } from '../http/cors.ts';
import type { Encoder } from './encode-submission.ts';
import type { ExchangeObserver } from '../http/exchange.ts';
import type { Freshness } from '../reads/freshness.ts';
import type { PassThrough } from './pass-through.ts';
import type { Reader } from '../reads/reader.ts';
import type { Shares } from '../reads/shares.ts';
import type { Bodies } from '../http/request-body.ts';
import type { ResponseWriter } from '../http/response-writer.ts';
import type { Router } from './router.ts';
import type { TargetCache } from './target-cache.ts';
import type { TlsListener } from '../http/server/tls-server.ts';
import type { TurnShares } from '../http/turn-shares.ts';
import type { UnsentAnswers } from '../http/unsent-answers.ts';

/** Time limits of a client, in milliseconds. */
export interface ConnectionTimes {
  /** For a request's head, from its first byte; before any byte, from the connection's start. */
  readonly headMs: number;
  /** For a whole request. */
  readonly requestMs: number;
  /** Interval of the checks. */
  readonly checkMs: number;
  /** For a pause in reading and writing while a request is in flight. */
  readonly inactivityMs: number;
}

/** Sheds reads while the process is overloaded. */
export interface Overload {
  /** Whether the event loop has more work than it completes. */
  isOverloaded(): boolean;
  /** Called for each refused read. */
  onShed(): void;
}

/** Parts that answer requests on the client port. */
export interface ServerParts {
  readonly router: Router;
  readonly targets: TargetCache;
  /** Absent: requests need no key. */
  readonly access: AccessControl | undefined;
  readonly bodies: Bodies;
  readonly overload: Overload;
  readonly fleet: Pick<Fleet, 'view'>;
  readonly reader: Reader;
  readonly shares: Shares;
  readonly memory: MemoryCache;
  readonly passThrough: PassThrough;
  /** `undefined`: nodes encode. No getter: V8 makes a literal that has one a dictionary, and each load slow. */
  readonly encoder: () => Encoder | undefined;
  readonly freshness: Freshness;
  readonly cors: Cors;
  readonly writer: ResponseWriter;
  readonly unsent: UnsentAnswers;
  readonly observer: ExchangeObserver;
  readonly times: ConnectionTimes;
  /** Shared by all transports. */
  readonly turns: TurnShares;
  /** Absent: plain HTTP. */
  readonly tls?: TlsListener | undefined;
}
