/** Type arguments of a call: text to type tag, within what every node version takes (protocol 4.2, 4.3, 5.6). */
import { quote } from '../ledger/errors.ts';
import { findTypeTag, type TypeTag } from '../ledger/type-tag.ts';
import { maxTypeTagNesting } from './bcs.ts';
import { Handover, EncodeRefusal } from './outcome.ts';
import type { Steps } from './steps.ts';

/** Newer nodes reserve these names for the signed integers. */
const signedNames = new Set(['i8', 'i16', 'i32', 'i64', 'i128', 'i256']);

/**
 * Parses one type argument. Throws `EncodeRefusal` for text that is no type, and `Handover` for signed integers, function
 * types, and nesting at which node versions part.
 */
export function parseTypeArgument(text: string, steps: Steps): TypeTag {
  const tag = findTypeTag(text);
  if (tag !== undefined) {
    check(tag, steps, 0, 0);
    return tag;
  }
  if (text.includes('|')) throw new Handover('type argument');
  throw new EncodeRefusal(
    'invalid_input',
    `'UserTransactionRequest' invalid: Payload 'EntryFunctionPayload' invalid: Unable to parse move type ${quote(text)}`,
  );
}

/**
 * A node counts twice: `nesting`, one for each vector or struct around, and `weight`, where a struct counts one more
 * for what is inside of it. Neither may pass the limit.
 */
function check(tag: TypeTag, steps: Steps, nesting: number, weight: number): void {
  steps.take();
  if (nesting > maxTypeTagNesting || weight > maxTypeTagNesting) throw new Handover('type argument');
  switch (tag.kind) {
    case 'primitive':
      if (signedNames.has(tag.name)) throw new Handover('signed integer');
      return;
    case 'vector':
      check(tag.element, steps, nesting + 1, weight + 1);
      return;
    case 'struct':
      if (weight + 1 > maxTypeTagNesting) throw new Handover('type argument');
      if (signedNames.has(tag.module) || signedNames.has(tag.name)) throw new Handover('signed integer');
      for (const argument of tag.typeArguments) check(argument, steps, nesting + 1, weight + 2);
  }
}
