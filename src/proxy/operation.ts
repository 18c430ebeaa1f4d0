/** What a request does, told by method and target alone: as the routes tell it (routes.ts), and before any is taken. */
import type { Operation } from '../access/principal.ts';

/** What a path names may be empty, for the router as well: it is found to be no name later. */
const reads = /^(?:\/?|\/accounts\/[^/]*\/(?:resource|module)\/[^/]*|\/transactions\/by_hash\/[^/]*)$/;
const waits = /^\/transactions\/wait_by_hash\/[^/]*$/;
/**
 * With a slash behind it no route of ours takes it, and it is passed on: a node may read it as what it looks like. Who
 * must not submit must not in this way either.
 */
const submissions = /^\/transactions(?:\/batch)?\/*$/i;
const encodings = /^\/transactions\/encode_submission$/;
const views = /^\/view$/;

/** What is not known to be anything else is passed through. */
export function operationOf(method: string, target: string, basePath: string): Operation {
  const path = routedPath(target);
  if (path === undefined || !path.startsWith(basePath)) return 'pass';
  const below = path.slice(basePath.length);
  switch (method) {
    case 'GET':
      return reads.test(below) || waits.test(below) ? 'read' : 'pass';
    case 'HEAD':
      return reads.test(below) ? 'read' : 'pass';
    case 'POST':
      if (submissions.test(below)) return 'submit';
      if (encodings.test(below)) return 'encode';
      return views.test(below) ? 'view' : 'pass';
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
