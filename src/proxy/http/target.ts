/** Request targets as they arrive. */

/** Characters; longer targets get 414. A percent-encoded struct tag of 4 kB fits. */
export const longestTarget = 16 * 1024;

/**
 * Strips scheme and authority of an absolute target (RFC 9112 3.2.2). A malformed authority, or one with credentials,
 * stays: the target then matches no route.
 */
export function originForm(target: string): string {
  if (target.startsWith('/')) return target;
  const [prefix = '', authority = ''] = /^https?:\/\/([^/?#]*)/i.exec(target) ?? [];
  if (authority === '' || !isAuthority(authority)) return target;
  const rest = target.slice(prefix.length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

/** Whether `text` is a host, with or without port, without user (RFC 9110 7.2). An empty host is valid. */
export function isAuthority(text: string): boolean {
  return authorityForm.test(text);
}

/** Without the comma that RFC 3986 allows: it joins two Host headers. */
const authorityForm = /^(?:[\w.~!$&'()*+;=%-]*|\[[\da-f:.]+\])(?::\d{0,5})?$/i;
