/** The client's address: the connection's, or the one that trusted proxies report. */
import { BlockList, isIP } from 'node:net';

/** Networks in CIDR form, IPv4 and IPv6: no network of one holds an address of the other. */
export class Networks {
  readonly #texts: readonly string[];
  #lists: Readonly<Record<'ipv4' | 'ipv6', BlockList>> | undefined;

  /** `texts`: valid, because the config has checked them. */
  constructor(texts: readonly string[]) {
    this.#texts = texts;
  }

  /** Whether a canonical address (`plainAddress`) is within one of them. No network holds the empty text. */
  holds(address: string): boolean {
    if (this.#texts.length === 0 || address === '') return false;
    // On first use: building takes 20 µs, and there may be 100,000 keys with networks.
    this.#lists ??= listsOf(this.#texts);
    const family = familyOf(address);
    return this.#lists[family].check(address, family);
  }
}

function listsOf(texts: readonly string[]) {
  // `BlockList` by itself takes IPv4 for a part of `::/0`.
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const text of texts) {
    const [address = '', given] = text.split('/');
    const bits = given === undefined ? 128 : Number(given);
    const plain = plainAddress(address) ?? address;
    const isMapped = address !== plain && familyOf(plain) === 'ipv4' && bits >= mappedBits;
    if (isMapped) lists.ipv4.addSubnet(plain, bits - mappedBits, 'ipv4');
    else if (familyOf(address) === 'ipv6') lists.ipv6.addSubnet(address, bits, 'ipv6');
    else lists.ipv4.addSubnet(address, Math.min(bits, 32), 'ipv4');
  }
  return lists;
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return address.includes(':') ? 'ipv6' : 'ipv4';
}

/** Bits ahead of the IPv4 address in IPv4-mapped IPv6 (RFC 4291 2.5.5.2). */
const mappedBits = 96;

/** Entries of `X-Forwarded-For` that are read, from its end: bounds the work for a hostile list. */
const mostHops = 32;

/**
 * The client's address: from the connection's address and the entries of `X-Forwarded-For`, last to first, the first
 * that is no trusted proxy (`ours`). Entries before it are the client's claims. An entry that is no address ends the
 * walk.
 */
export function clientAddress(
  connection: string | undefined,
  forwardedFor: string | undefined,
  ours: Networks,
): string {
  let address = plainAddress(connection ?? '') ?? '';
  if (forwardedFor === undefined) return address;
  let end = forwardedFor.length;
  for (let hop = 0; hop < mostHops && end > 0 && ours.holds(address); hop += 1) {
    const comma = forwardedFor.lastIndexOf(',', end - 1);
    const before = plainAddress(withoutPort(forwardedFor.slice(comma + 1, end).trim()));
    if (before === undefined) break;
    address = before;
    end = comma;
  }
  return address;
}

/** Fair-queueing key of a request, or of a connection: the tenant where there are keys, else the client's network. */
export function clientOf(
  socket: { readonly remoteAddress?: string | undefined },
  admitted?: { readonly principal: { readonly name: string | undefined; readonly tenant: string } },
): string {
  if (admitted === undefined) return countedNetwork(socket.remoteAddress ?? '');
  const { name, tenant } = admitted.principal;
  // The tenant of a token may have the text of an address.
  return name === undefined ? tenant : `tenant ${tenant}`;
}

/** The network that limits count, in one spelling: an IPv4 address, or the /64 that an IPv6 customer gets at least. */
export const countedNetwork = remembered(networkOf);

/** Remembers the last result: a client repeats its address, and parsing one takes a microsecond. */
function remembered(compute: (text: string) => string): (text: string) => string {
  let last: string | undefined;
  let result = '';
  return (text) => {
    if (text !== last) {
      result = compute(text);
      last = text;
    }
    return result;
  };
}

function networkOf(address: string): string {
  const plain = plainAddress(address) ?? address;
  if (!plain.includes(':')) return plain;
  const [left = '', right = ''] = plain.split('::');
  const first = left === '' ? [] : left.split(':');
  const last = right === '' ? [] : right.split(':');
  const zeros = plain.includes('::') ? Array.from({ length: 8 - first.length - last.length }, () => '0') : [];
  return `${[...first, ...zeros, ...last].slice(0, 4).join(':')}::/64`;
}

/** IPv6 in the form of RFC 5952, IPv4-mapped IPv6 as IPv4; `undefined` for other texts. */
function plainAddress(text: string): string | undefined {
  const family = isIP(text);
  return family === 0 ? undefined : family === 4 ? text : plainSix(text);
}

const plainSix = remembered((text) => {
  // The zone names a link of this machine, and is no part of the address.
  const address = new URL(`http://[${text.replace(/%.*$/, '')}]`).hostname.slice(1, -1);
  const mapped = /^::ffff:([\da-f]{1,4}):([\da-f]{1,4})$/.exec(address);
  if (mapped === null) return address;
  const [high, low] = [Number.parseInt(mapped[1] ?? '', 16), Number.parseInt(mapped[2] ?? '', 16)];
  return [high >> 8, high & 255, low >> 8, low & 255].join('.');
});

/** Some proxies append a port: `203.0.113.7:4711`, `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d{1,5})?$/.exec(text)?.[1];
  return bracketed ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
}
