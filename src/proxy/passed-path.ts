/** What a path that is passed through asks for: told by the path as the node's framework reads it, decoded. */
import { GatewayError } from '../ledger/errors.ts';
import { findU64, type LedgerVersion } from '../ledger/version.ts';
import type { Need } from '../upstream/need.ts';
import { foldedPaths, hasFoldedDots } from './folded-path.ts';
import { needOf } from './path-read.ts';
import { notFound } from './request-faults.ts';
import { decodedPath, hasParameter, numberParameter, pathBelow } from './target.ts';

const versionInPath = /^\/(?:blocks|transactions)\/by_version\/([^/]+)$/;
const heightInPath = /^\/blocks\/by_height\/([^/]+)$/;
const transactionList = /^\/transactions$/;

/** Reads of state at a version, beside our own: `ledger_version` means to them what it means to us. */
const statePath = /^\/accounts\/[^/]+(?:\/(?:balance\/[^/]+|resources|modules))?$/;
const tablePath = /^\/tables\/[^/]+\/(?:raw_)?item$/;
const viewPath = /^\/view$/;

/**
 * The state or history that a path needs; paths without any are best answered by the freshest node, which also tells
 * what is wrong with a number.
 */
export function needOfPath(target: string): Need {
  const path = decodedPath(target);
  const version = versionInPath.exec(path)?.[1];
  if (version !== undefined) return needOf(findU64(version) as LedgerVersion | undefined);
  const height = findU64(heightInPath.exec(path)?.[1] ?? '');
  if (height !== undefined) return { kind: 'block', height };
  if (transactionList.test(path)) return needOf(numberParameter(target, 'start'));
  // Other paths ignore the parameter, and what they refuse says nothing of it.
  return readsState(path) ? needOf(numberParameter(target, 'ledger_version')) : { kind: 'head' };
}

/** Whether the version that is named is only where the answer begins. */
export function isList(target: string): boolean {
  return transactionList.test(decodedPath(target));
}

/** Whether the gateway chooses the version: a read of state that names none. */
export function isReadOfLatest(method: string, target: string): boolean {
  // A version that is named, however badly, is the node's to judge.
  if (hasParameter(target, 'ledger_version')) return false;
  const path = decodedPath(target);
  if (method === 'POST') return tablePath.test(path) || viewPath.test(path);
  return (method === 'GET' || method === 'HEAD') && statePath.test(path);
}

/** POSTs that only read. */
const readingPosts = /^\/(?:tables\/[^/]+\/(?:raw_)?item|transactions\/simulate|transactions\/encode_submission|view)$/;

export function isIdempotent(method: string, target: string): boolean {
  return method === 'GET' || method === 'HEAD' || (method === 'POST' && readingPosts.test(decodedPath(target)));
}

/**
 * Paths whose successes are from the ledger and say so in their headers, as JSON or BCS (protocol 1 and 2.1). What
 * nodes say of themselves (`/info`, `/spec`, `/-/healthy`), and paths that are not known here, may be anything.
 */
const ledgerPath = /^\/(?:(?:accounts|blocks|tables|transactions)\/|(?:transactions|view|estimate_gas_price)$)/;

export function isOfLedger(target: string): boolean {
  return ledgerPath.test(decodedPath(target));
}

/** Routes that only tests of nodes use (protocol 1, row 28): no client of a fleet reaches them. */
const hiddenPath = /^\/(?:set_failpoint|experimental\/state_values\/raw)$/;

/** Whether a path asks for the health of a node (protocol 9). */
export function isHealthCheck(target: string): boolean {
  return decodedPath(target) === '/-/healthy';
}

/** Whether a node, or a balancer before it, may read the path of `target` as a hidden one (folded-path.ts). */
export function isHidden(target: string): boolean {
  return foldedPaths(target).some(isHiddenPath);
}

function isHiddenPath(folded: string): boolean {
  return hiddenPath.test(folded);
}

/** The part of a target that a node is sent. Throws `GatewayError` 400 or 404 for what no node shall see. */
export function passedPath(basePath: string, target: string): string {
  const path = pathBelow(basePath, target);
  if (hasFoldedDots(path)) throw new GatewayError('malformed', 'the path has dot segments');
  const [whole, cut] = foldedPaths(path);
  if (isHiddenPath(whole) || isHiddenPath(cut)) throw notFound();
  // Rights are those of one path: a router that drops `;a` and one that stops there would read two.
  if (whole !== cut) throw new GatewayError('malformed', 'the path has parameters ahead of its last segment');
  return path;
}

function readsState(path: string): boolean {
  return statePath.test(path) || tablePath.test(path) || viewPath.test(path);
}
