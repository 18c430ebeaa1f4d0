/** Headers that keys and node credentials may use: none with another meaning. */
import { isForNodes } from '../ledger/node-headers.ts';

/** Hop-by-hop and framing headers, and headers that the gateway writes. */
const reserved: ReadonlySet<string> = new Set(
  [
    ['accept', 'accept-encoding', 'connection', 'content-encoding', 'content-length', 'content-type', 'date', 'expect'],
    ['forwarded', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'via'],
  ].flat(),
);

/** Headers that browsers and proxies send with another meaning. */
const clientHeaders: ReadonlySet<string> = new Set(
  [
    ['cookie', 'origin', 'proxy-authenticate', 'proxy-authorization', 'range', 'referer', 'vary', 'cache-control'],
    ['if-range', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'],
  ].flat(),
);

/** Whether clients may send keys in it (lower case). The gateway must not forward it: keys never reach a node. */
export function isFitForKeys(name: string): boolean {
  return (
    !isForNodes(name) &&
    !reserved.has(name) &&
    !clientHeaders.has(name) &&
    !/^(?:ledgergate|access-control|sec)-/.test(name)
  );
}

/** Whether it may carry a credential to a node. */
export function isFitForCredentials(name: string): boolean {
  return !reserved.has(name.toLowerCase());
}
