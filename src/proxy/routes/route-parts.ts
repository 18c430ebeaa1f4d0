/** The parts that answer client requests, shared by all transports. */
import type { ServerParts } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import type { Encoder } from './encode-submission.ts';
import type { PassThrough } from './pass-through.ts';
import type { Router } from './router.ts';

/** Sheds reads while the process is overloaded. */
export interface Overload {
  /** Whether the event loop has more work than it completes. */
  isOverloaded(): boolean;
  /** Called for each refused read. */
  onShed(): void;
}

/** Parts that answer requests on the client port. */
export interface RouteParts
  extends Omit<ServerParts, 'service' | 'memory' | 'unsent' | 'times' | 'turns' | 'tls'>, Pick<Reads, 'shares'> {
  readonly router: Router;
  readonly overload: Overload;
  readonly passThrough: PassThrough;
  /** `undefined`: nodes encode. No getter: V8 makes a literal that has one a dictionary, and each load slow. */
  readonly encoder: () => Encoder | undefined;
}
