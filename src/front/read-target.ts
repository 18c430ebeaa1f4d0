/** What a target asks for, where it is a read in plain form; whatever else it may be is found out by the router. */
import type { Alias } from '../proxy/aliases.ts';
import { moduleRead } from '../proxy/module.ts';
import { resourceRead } from '../proxy/resource.ts';
import type { Submissions } from '../proxy/submissions.ts';
import { longestTarget } from '../proxy/target.ts';
import { transactionRead } from '../proxy/transaction.ts';

export interface TargetParts {
  readonly basePath: string;
  readonly submissions: Submissions;
}

/** Of the escapes only those that clients write in a type: for `:`, `<`, `>`, `,` and space. */
const forms =
  /^\/accounts\/(\w{1,66})\/(resource|module)\/((?:[\w:,]|%3[ACEace]|%2[Cc]|%20)+)(?:\?ledger_version=\d{1,20})?$/;
const transaction = /^\/transactions\/by_hash\/(0x[\da-f]{64})$/;

/** The read, `undefined` where the target is not in plain form or asks for what cannot be. */
export function readOf(
  target: string,
  accept: string | undefined,
  { basePath, submissions }: TargetParts,
): Alias | undefined {
  if (!target.startsWith(basePath) || target.length > longestTarget) return undefined;
  const below = target.slice(basePath.length);
  const request = { target, accept };
  try {
    const [, address = '', kind, last = ''] = forms.exec(below) ?? [];
    if (kind === 'resource')
      return { route: 'resource', read: resourceRead({ address, tag: decodeURIComponent(last) }, request) };
    if (kind === 'module')
      return { route: 'module', read: moduleRead({ address, name: decodeURIComponent(last) }, request) };
    const hash = transaction.exec(below)?.[1];
    return hash === undefined
      ? undefined
      : { route: 'transaction_by_hash', read: transactionRead(hash, request, submissions) };
  } catch {
    // What is wrong with it is told where errors are: the router reads it once more.
    return undefined;
  }
}
