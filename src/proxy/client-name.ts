/** What clients are told apart by. */

/** Groups of an IPv6 address, and those of the part that one customer is given (a /64). */
const groupsOfAddress = 8;
const groupsOfCustomer = 4;

/** The address as the socket spells it; of IPv6 the part that one customer is given, so that who has many is one. */
export function clientOf(address: string | undefined): string {
  if (address === undefined || address.includes('.')) return address?.slice(address.lastIndexOf(':') + 1) ?? '';
  // Of several groups of zeros nothing but a gap is written.
  const [before = '', after] = address.split('::');
  const groups = before.split(':').filter((group) => group !== '');
  if (after !== undefined) {
    const last = after.split(':').filter((group) => group !== '');
    while (groups.length + last.length < groupsOfAddress) groups.push('0');
    groups.push(...last);
  }
  return groups.slice(0, groupsOfCustomer).join(':');
}
