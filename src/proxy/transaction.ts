/**
 * `GET /transactions/by_hash/{hash}` and `/transactions/wait_by_hash/{hash}`. A committed transaction is kept under its
 * hash; pending and unknown ones never are.
 */
import { parseTransactionHash } from '../ledger/transaction-hash.ts';
import { answerForm } from './negotiate.ts';
import { acceptOnly, type PathRead } from './path-read.ts';
import type { Read } from './read.ts';
import type { Submissions } from './submissions.ts';

/** Parses the path; throws `GatewayError` 400. The node that took the submission is asked first. */
export function transactionRead(hashText: string, request: PathRead, submissions: Submissions): Read {
  const hash = parseTransactionHash(hashText);
  const form = answerForm(request.accept);
  return {
    operation: 'transaction',
    subject: hash,
    version: undefined,
    form,
    wire: { method: 'GET', path: `/transactions/by_hash/${hash}`, headers: acceptOnly[form] },
    need: { kind: 'transaction', first: submissions.takerOf(hash) },
  };
}

/** As `transactionRead`, but the node waits for up to a second while the transaction is pending. */
export function transactionWait(hashText: string, request: PathRead, submissions: Submissions): Read {
  const read = transactionRead(hashText, request, submissions);
  const wire = { ...read.wire, path: `/transactions/wait_by_hash/${read.subject}` };
  return { ...read, wire, atOnce: read.wire };
}
