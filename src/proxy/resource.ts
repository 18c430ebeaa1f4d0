/** `GET /accounts/{address}/resource/{resource_type}`: one typed resource of an account. */
import { LRUCache } from 'lru-cache';
import { parseAddress } from '../ledger/address.ts';
import { formatTypeTag, parseStructTag } from '../ledger/type-tag.ts';
import { pinnedRead, type PathRead } from './path-read.ts';

export interface ResourceParameters {
  readonly address: string;
  readonly tag: string;
}

/** Parses path and query; throws `GatewayError` 400 for what a node would not parse either. */
export function resourceRead(parameters: ResourceParameters, request: PathRead) {
  const address = parseAddress(parameters.address);
  const { text, encoded } = tagOf(parameters.tag);
  const path = `/accounts/${address}/resource/${encoded}`;
  return pinnedRead({ operation: 'resource', subject: `${address}/${text}`, path }, request);
}

/** A struct tag in canonical text, as it is and percent-encoded. */
interface Tag {
  readonly text: string;
  readonly encoded: string;
}

/** Tags by their spellings: a few types are what nearly everybody asks for. */
const knownTags = new LRUCache<string, Tag>({ max: 1_000 });
/** With both forms of it 4 kB at most. */
const longestKnown = 500;

/** Throws `GatewayError` 400 where `spelling` is of none. */
function tagOf(spelling: string): Tag {
  const known = knownTags.get(spelling);
  if (known !== undefined) return known;
  const text = formatTypeTag(parseStructTag(spelling));
  const tag = { text, encoded: encodeURIComponent(text) };
  if (spelling.length <= longestKnown) knownTags.set(spelling, tag);
  return tag;
}
