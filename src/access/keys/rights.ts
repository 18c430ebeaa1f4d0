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

type Request = Pick<IncomingMessage, 'headers' | 'socket'>;

/** Finds the address of a client. */
type Addresses = Pick<Principals, 'addressOf'>;

/** The first right that a request lacks. */
export function findMissing(
  principal: Principal,
  request: Request,
  { route, operation, read }: RightsMatch,
  from: Addresses,
): Right | undefined {
  const { operations, origins, plan } = principal;
  if (!isAtAddress(principal, request, from)) return 'address';
  if (route?.charge === 'holder') return undefined;
  if (!operations.has(operation)) return 'operation';
  const { origin } = request.headers;
  // Programs other than browsers can send any origin, but must send one.
  if (origins !== undefined && (origin === undefined || !origins.has(origin))) return 'origin';
  if (operation !== 'view' || plan.views === undefined || read === undefined) return undefined;
  return plan.views.admits(read.functionId) ? undefined : 'function';
}

/** Whether the key may be used at the client's address, which is computed for keys with a list alone. */
export function isAtAddress({ addresses }: Principal, { headers, socket }: Request, from: Addresses): boolean {
  return addresses === undefined || addresses.holds(from.addressOf(headers, socket));
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
