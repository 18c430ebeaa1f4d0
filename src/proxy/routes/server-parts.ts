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
import type { Bodies } from '../http/request-body.ts';
import type { ResponseWriter } from '../http/response-writer.ts';
import type { Router } from './router.ts';
import type { TargetCache } from './target-cache.ts';
import type { TlsListener } from '../http/server/tls-server.ts';
import type { UnsentAnswers } from '../http/unsent-answers.ts';

/** How long a client may take, in milliseconds. */
export interface ConnectionTimes {
  /** For a request's head, from the first byte or, before any, from the connection on. */
  readonly headMs?: number;
  /** For a whole request. */
  readonly requestMs?: number;
  /** How often is looked at who is over time. */
  readonly checkMs?: number;
  /** Nothing read or written for so long while a request is under way: the client takes nothing of its answer. */
  readonly inactivityMs?: number;
}

/** Sheds reads while the process is overloaded. */
export interface Overload {
  /** Whether there is more work than this process gets done. */
  isOverloaded(): boolean;
  /** A read was refused for it. */
  onShed(): void;
}

/** Parts of the clients' port. */
export interface ServerParts {
  readonly router: Router;
  readonly targets: TargetCache;
  /** Absent: access is open to everybody. */
  readonly access: AccessControl | undefined;
  readonly bodies: Bodies;
  readonly overload: Overload;
  readonly fleet: Pick<Fleet, 'view'>;
  readonly reader: Reader;
  readonly memory: MemoryCache;
  readonly passThrough: PassThrough;
  /** Absent: nodes encode. */
  readonly encoder: Encoder | undefined;
  readonly freshness: Freshness;
  readonly cors: Cors;
  readonly writer: ResponseWriter;
  readonly unsent: UnsentAnswers;
  readonly observer: ExchangeObserver;
  readonly times: ConnectionTimes;
  /** Absent: plain HTTP. */
  readonly tls?: TlsListener | undefined;
}
