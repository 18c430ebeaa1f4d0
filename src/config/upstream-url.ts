/** The base address of an upstream. */

/** What editors can check while typing; `upstreamUrlFault` says what is wrong in words. */
export const upstreamUrlPattern = /^https?:\/\/[^\s/?#@\\]+(?:\/[^\s?#@\\]*)?$/;

/** Why `text` cannot be an upstream's base address, or `undefined` when it can. Never repeats the text. */
export function upstreamUrlFault(text: string): string | undefined {
  if (!/^https?:\/\//.test(text)) return 'expected a base address such as "http://10.0.0.1:8080/v1"';
  // The address is written to logs, metrics and the status page; a password in it would be, too.
  if (/^https?:\/\/[^/?#]*@/.test(text)) return 'must not carry credentials';
  if (/[?#]/.test(text)) return 'must end with its path: no "?" and no "#"';
  if (!upstreamUrlPattern.test(text) || !URL.canParse(text)) return 'is not an address that can be called';
  return undefined;
}

/** The address without a trailing slash: `{url}/accounts/...` must not have two (the root path stays `/`). */
export function upstreamUrl(text: string): URL {
  return new URL(text.replace(/\/+$/, ''));
}
