/** Account addresses: 32 bytes, written as hex (protocol 4.1, 4.3). */
import { GatewayError, quote } from './errors.ts';

declare const brand: unique symbol;

/** An address in its one canonical spelling: `0x`, lowercase, leading zeros trimmed, as nodes print it. */
export type Address = string & { readonly [brand]: 'Address' };

/** Reads and writes addresses. */
export const Address = {
  /** Parses a path or JSON address: `0x` optional and lowercase only, 1 to 64 hex digits. Throws `GatewayError` 400. */
  parse(text: string): Address {
    const address = Address.find(text);
    if (address !== undefined) return address;
    throw new GatewayError('malformed', `failed to parse address: ${quote(text)} is not 1 to 64 hex digits`);
  },

  /** Parses as `parse` does; `undefined` for text that is no address. */
  find(text: string): Address | undefined {
    if (isCanonical(text)) return text as Address;
    const hex = digits.exec(text)?.[1];
    return hex === undefined ? undefined : Address.ofDigits(hex);
  },

  /** The canonical spelling of 1 to 64 hex digits that a parser has already checked. */
  ofDigits(hex: string): Address {
    return `0x${hex.replace(/^0+(?=.)/, '').toLowerCase()}` as Address;
  },

  /** The 32 bytes, big-endian as BCS writes them. */
  bytes(address: Address): Uint8Array {
    return Buffer.from(address.slice(2).padStart(64, '0'), 'hex');
  },
} as const;

const digits = /^(?:0x)?([0-9a-fA-F]{1,64})$/;

/** Most clients send the canonical spelling: this check takes 0.1 microseconds, parsing takes 0.7. */
function isCanonical(text: string): boolean {
  if (text.length < 3 || text.length > 66 || !text.startsWith('0x')) return false;
  if (text.charCodeAt(2) === 48 && text.length > 3) return false;
  for (let at = 2; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isLowercaseHex = (code >= 48 && code <= 57) || (code >= 97 && code <= 102);
    if (!isLowercaseHex) return false;
  }
  return true;
}
