/** Which headers the config may give a meaning of its own: none that has one already. */
import { isForNodes } from '../ledger/node-headers.ts';

/** Of one connection, of its framing, or written by the gateway itself. */
const taken: ReadonlySet<string> = new Set(
  [
    ['accept', 'accept-encoding', 'connection', 'content-encoding', 'content-length', 'content-type', 'date', 'expect'],
    ['forwarded', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'via'],
  ].flat(),
);

/** Of clients: what browsers, proxies and this gateway mean by it would be taken for a key. */
const ofClients: ReadonlySet<string> = new Set(
  [
    ['cookie', 'origin', 'proxy-authenticate', 'proxy-authorization', 'range', 'referer', 'vary', 'cache-control'],
    ['if-range', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'],
  ].flat(),
);

/** Whether clients may send their keys in it. One that nodes are told is none: keys must never reach a node. */
export function isFitForKeys(name: string): boolean {
  return (
    !isForNodes(name) && !taken.has(name) && !ofClients.has(name) && !/^(?:ledgergate|access-control|sec)-/.test(name)
  );
}

/** Whether a node may be given a credential in it. */
export function isFitForCredentials(name: string): boolean {
  return !taken.has(name.toLowerCase());
}
