/** What the two reads by path have in common: the version from the query, the form from `Accept`. */
import type { Operation } from '../cache/key.ts';
import type { LedgerVersion } from '../ledger/version.ts';
import type { Need } from '../upstream/need.ts';
import { answerForm } from './negotiate.ts';
import type { Read } from './read.ts';
import { versionParameter } from './target.ts';

/** The parts of a client's request beside its path parameters. */
export interface PathRead {
  readonly target: string;
  readonly accept: string | undefined;
}

/** `path` is below the base path, canonical and percent-encoded. */
interface Subject {
  readonly operation: Operation;
  readonly subject: string;
  readonly path: string;
}

export function pinnedRead({ operation, subject, path }: Subject, request: PathRead): Read {
  const version = versionParameter(request.target);
  const form = answerForm(request.accept);
  return {
    operation,
    subject,
    version,
    form,
    wire: { method: 'GET', path: withVersion(path, version), headers: acceptOnly[form] },
    need: needOf(version),
    keyed: undefined,
  };
}

export const mediaType = { json: 'application/json', bcs: 'application/x-bcs' } as const;

/** Frozen: what is made of them is made once for all requests. */
export const acceptOnly = {
  json: Object.freeze({ accept: mediaType.json }),
  bcs: Object.freeze({ accept: mediaType.bcs }),
} as const;

export function withVersion(path: string, version: LedgerVersion | undefined): string {
  return version === undefined ? path : `${path}?ledger_version=${version}`;
}

export function needOf(version: LedgerVersion | undefined): Need {
  return version === undefined ? { kind: 'head' } : { kind: 'version', version };
}
