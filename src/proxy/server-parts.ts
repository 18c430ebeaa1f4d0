/** What the listening port is made of. */
import type { MemoryCache } from '../cache/memory.ts';
import type { Fleet } from '../upstream/fleet.ts';
import type { Aliases } from './aliases.ts';
import type { Cors } from './cors.ts';
import type { Encoder } from './encode-submission.ts';
import type { ExchangeObserver } from './exchange.ts';
import type { Freshness } from './freshness.ts';
import type { Gatekeeper } from './gatekeeper.ts';
import type { ConnectionTimes } from './listener.ts';
import type { PassThrough } from './pass-through.ts';
import type { Reader } from './read.ts';
import type { Replier } from './reply.ts';
import type { Bodies } from './request-body.ts';
import type { Submissions } from './submissions.ts';
import type { TlsListener } from './tls-server.ts';
import type { UntakenAnswers } from './untaken-answers.ts';

export interface Overload {
  /** Whether there is more work than this process gets done. */
  isOverloaded(): boolean;
  /** A read was refused for it. */
  onShed(): void;
}

export interface ServerParts {
  readonly basePath: string;
  readonly times: ConnectionTimes;
  readonly overload: Overload;
  readonly untaken: UntakenAnswers;
  readonly fleet: Pick<Fleet, 'view'>;
  readonly reader: Reader;
  readonly memory: MemoryCache;
  readonly replier: Replier;
  readonly passThrough: PassThrough;
  /** Absent: nodes encode. */
  readonly encoder: Encoder | undefined;
  readonly freshness: Freshness;
  readonly submissions: Submissions;
  /** Absent: everybody may ask for everything. */
  readonly gatekeeper: Gatekeeper | undefined;
  readonly aliases: Aliases;
  readonly bodies: Bodies;
  readonly cors: Cors;
  readonly observer: ExchangeObserver;
  /** Absent: plain HTTP. */
  readonly tls?: TlsListener | undefined;
}
