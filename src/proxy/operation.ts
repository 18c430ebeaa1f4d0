/**
 * Which operation a request counts as, for access and cost: decided by method and target alone, ahead of routing. A
 * path that a route takes is that route's operation. A path that is passed counts by its folded spelling, because a node
 * may fold it as well (folded-path.ts).
 */
import type { Operation } from '../access/principal.ts';
import { foldedPaths } from './folded-path.ts';

/** A path names its parts by whatever a route takes, the empty text included: a fault of the name is found later. */
const reads = /^(?:\/?|\/accounts\/[^/]*\/(?:resource|module)\/[^/]*|\/transactions\/by_hash\/[^/]*)$/;
const waits = /^\/transactions\/wait_by_hash\/[^/]*$/;
const submissions = /^\/transactions(?:\/batch)?$/;
const encodings = /^\/transactions\/encode_submission$/;
const views = /^\/view$/;

/** The first here counts among several readings: what may change the ledger, then what costs a node more. */
const strictest: readonly Operation[] = ['submit', 'encode', 'view', 'pass', 'read'];

/** The operation of a request; `pass` for a path that neither a route nor a folded spelling makes anything else. */
export function operationOf(method: string, target: string, basePath: string): Operation {
  const routed = routedPath(target);
  if (routed?.startsWith(basePath) === true) {
    const operation = operationOfPath(method, routed.slice(basePath.length));
    if (operation !== 'pass') return operation;
  }
  // No node is sent any other path (target.ts).
  if (!target.startsWith(basePath)) return 'pass';
  const [whole, cut] = foldedPaths(target.slice(basePath.length));
  const [one, other] = [operationOfPath(method, whole), operationOfPath(method, cut)];
  return strictest.find((operation) => operation === one || operation === other) ?? 'pass';
}

function operationOfPath(method: string, path: string): Operation {
  switch (method) {
    case 'GET':
      return reads.test(path) || waits.test(path) ? 'read' : 'pass';
    case 'HEAD':
      return reads.test(path) ? 'read' : 'pass';
    case 'POST':
      if (submissions.test(path)) return 'submit';
      if (encodings.test(path)) return 'encode';
      return views.test(path) ? 'view' : 'pass';
    default:
      return 'pass';
  }
}

/** The path as the router reads it: up to a query or fragment, decoded but for what would separate its parts. */
function routedPath(target: string): string | undefined {
  const end = target.search(/[?#]/);
  const path = end === -1 ? target : target.slice(0, end);
  if (!path.includes('%')) return path;
  try {
    return decodeURI(path.replaceAll('%25', '%2525'));
  } catch {
    return undefined;
  }
}
