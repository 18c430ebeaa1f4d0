/** The answers that faults put in the place of the node's own. */
import type { LedgerInfo } from '../ledger/ledger-headers.ts';
import { findU64 } from '../ledger/version.ts';
import type { SampleAnswer } from './answer.ts';
import type { Replacement } from './faults.ts';
import { bareError, nodeError, versionPruned } from './node-error.ts';

/** `pinned`: the text of the request's `ledger_version`, which the message names. */
export function replacementAnswer(fault: Replacement, ledger: LedgerInfo, pinned: string | null): SampleAnswer {
  const version = findU64(pinned ?? '') ?? ledger.version;
  switch (fault.kind) {
    case 'pruned':
      return versionPruned(version).answer;
    case 'pruned while reading': {
      const bound = `min available version is ${version + 1n}.`;
      return nodeError(500, 'internal_error', `Transaction at version ${version} is pruned, ${bound}`).answer;
    }
    case 'unavailable':
      return bareError(503, 'internal_error', 'Failed to read latest ledger info').answer;
    case 'html':
      return page;
    case 'answer': {
      const { status, body, headers = {}, contentType = 'application/json' } = fault;
      return { status, body, headers, contentType, ledgerHeaders: false };
    }
  }
}

const page: SampleAnswer = {
  status: 200,
  contentType: 'text/html; charset=utf-8',
  body: '<!doctype html><title>Sign in</title><p>This is not a ledger node.',
  ledgerHeaders: false,
};
