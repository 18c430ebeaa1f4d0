/** The methods of the interface's paths, for `Allow` in a 405 (RFC 9110 15.5.6). */
import { decodedPath } from './target.ts';

const readAndPosted = /\/transactions\/?$/;
const posted = /\/(?:view|tables\/[^/]+\/(?:raw_)?item|transactions\/(?:batch|simulate|encode_submission))\/?$/;

/** Flat. `target`: with or without the base path. `OPTIONS` is answered to preflights alone, so it is not named. */
export function allowOf(target: string): readonly [name: string, value: string] {
  const path = decodedPath(target);
  if (posted.test(path)) return ['Allow', 'POST'];
  return ['Allow', readAndPosted.test(path) ? 'GET, HEAD, POST' : 'GET, HEAD'];
}
