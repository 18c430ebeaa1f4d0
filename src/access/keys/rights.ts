/** Rights of a request by its key and plan: client address, operation, page, and function of a view. */
import type { IncomingMessage } from 'node:http';
import { GatewayError } from '../../ledger/index.ts';
import type { AccessOperation, Principal, Principals } from './principals.ts';

/** Rights that a request may lack, in the order in which they are checked. */
export const rights = ['address', 'operation', 'origin', 'function'] as const;
type Right = (typeof rights)[number];

/** The parts of a request's route that rights depend on. */
export interface RightsMatch {
  /** `holder`: the request is about the key itself, whatever operations and origins it has. */
  readonly route?: { readonly charge?: 'none' | 'holder' };
  /** Computed for authenticated requests only. */
  readonly operation: AccessOperation;
  /** The parsed read; absent until the body of a view is read. */
  readonly read?: ParsedRead;
}

/** `functionId`: canonical, of a view; absent: the function is not certain. */
interface ParsedRead {
  readonly functionId?: string | undefined;
}

/** The first right that a request lacks. */
export function findMissing(
  { addresses, operations, origins, plan }: Principal,
  { headers, socket }: Pick<IncomingMessage, 'headers' | 'socket'>,
  { route, operation, read }: RightsMatch,
  principals: Pick<Principals, 'addressOf'>,
): Right | undefined {
  if (addresses !== undefined && !addresses.holds(principals.addressOf(headers, socket))) return 'address';
  if (route?.charge === 'holder') return undefined;
  if (!operations.has(operation)) return 'operation';
  const { origin } = headers;
  // Programs other than browsers can send any origin, but must send one.
  if (origins !== undefined && (origin === undefined || !origins.has(origin))) return 'origin';
  if (operation !== 'view' || plan.views === undefined || read === undefined) return undefined;
  return plan.views.admits(read.functionId) ? undefined : 'function';
}

/** 403. `operation`: the request's. */
export function lacking(right: Right, operation: AccessOperation): GatewayError {
  const messages: Readonly<Record<Right, string>> = {
    address: 'this key may be used from certain addresses only',
    operation: `this key or plan does not allow the operation "${operation}"`,
    origin: 'this key or plan may be used by pages of certain origins only',
    function: 'this plan allows views of certain functions only, in a form that leaves no doubt of the function',
  };
  return new GatewayError('disabled', messages[right]);
}
