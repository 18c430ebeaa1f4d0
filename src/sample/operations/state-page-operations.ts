/** Pages of all resources and of all modules of an account, with the cursor of the next page. */
import type { Address } from '../../ledger/address.ts';
import { parseStructTag } from '../../ledger/type-tag.ts';
import { answerIn, type SampleAnswer } from '../answer.ts';
import { listBytes, standInBytes } from '../bcs.ts';
import { acceptForm, addressParam, historyAt, pinnedVersion, resolveVersion, type SampleCall } from '../call.ts';
import { accountNotFound, frameworkError } from '../node-error.ts';
import { pageLimit, statePage } from '../page.ts';
import { modulesOf, resourcesOf } from '../recorded.ts';
import { findSyntheticResource, isKnownAccount } from '../synthetic.ts';

/** Name and body of each, in the order of the names. */
type Items = readonly (readonly [string, string])[];

const probeTag = parseStructTag('0x1::ledgergate_sample::Probe');

/** `GET /accounts/{a}/resources?ledger_version=&start=&limit=`: the recorded ones and `Probe`. */
export function answerResources(call: SampleCall): SampleAnswer {
  return answerPage(call, (address, version) => {
    const probe = findSyntheticResource(address, probeTag, version, historyAt(call, version)) ?? '';
    // `0x1::ledgergate_sample::Probe` stands at its place in the order of the tags.
    return [...resourcesOf(address), ['0x1::ledgergate_sample::Probe', probe] as const].sort(([a], [b]) =>
      a < b ? -1 : 1,
    );
  });
}

/** `GET /accounts/{a}/modules?ledger_version=&start=&limit=`. */
export function answerModules(call: SampleCall): SampleAnswer {
  return answerPage(call, modulesOf);
}

function answerPage(call: SampleCall, itemsOf: (address: Address, version: bigint) => Items): SampleAnswer {
  const address = addressParam(call, 0);
  const pinned = pinnedVersion(call);
  const start = cursorQuery(call);
  const limit = pageLimit(call, statePage);
  const version = resolveVersion(call.ledger, pinned);
  if (!isKnownAccount(address)) throw accountNotFound(address, version);
  const rest = itemsOf(address, version).filter(([name]) => start === undefined || name >= start);
  const bodies = rest.slice(0, limit).map(([, body]) => body);
  const answer = answerIn(acceptForm(call), `[${bodies.join(',')}]`, () => listBytes(bodies.map(standInBytes)));
  const next = rest[limit]?.[0];
  return next === undefined ? answer : { ...answer, cursor: Buffer.from(next).toString('hex') };
}

/** `?start=`: hex without `0x`. It names the first item of the page; a real node's is an encoded state key. */
function cursorQuery(call: SampleCall): string | undefined {
  const text = call.query.get('start');
  if (text === null) return undefined;
  if (/^(?:[0-9a-fA-F]{2})+$/.test(text)) return Buffer.from(text, 'hex').toString();
  throw frameworkError(400, 'failed to parse parameter `start`: invalid state key');
}
