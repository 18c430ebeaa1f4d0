/** The request to encode, JSON text to parsed fields (protocol 5.2; interface specification 4.5). */
import {
  Address,
  findU64,
  FunctionId,
  JsonError,
  type JsonObject,
  JsonValue,
  quote,
  TypeTag,
} from '../ledger/index.ts';
import { Handover, EncodeRefusal, type Steps } from './outcome.ts';
import { maxTypeTagNesting } from './bcs.ts';

/** A parsed request: the raw transaction, and its further signers. */
export interface Submission {
  readonly sender: Address;
  readonly sequenceNumber: bigint;
  readonly maxGasAmount: bigint;
  readonly gasUnitPrice: bigint;
  readonly expirationTimestampSecs: bigint;
  /** Present: the transaction is orderless and its sequence number is ignored (protocol 5.5). */
  readonly nonce: bigint | undefined;
  /** Present, even empty: a multi-agent message (protocol 5.2). */
  readonly secondarySigners: readonly Address[] | undefined;
  /** Present: a multisig payload of this account. */
  readonly multisigAddress: Address | undefined;
  /** Absent only in a multisig payload. */
  readonly call: EntryCall | undefined;
}

/** An entry function and what it is called with; the arguments wait for the module's ABI. */
export interface EntryCall {
  readonly function: FunctionId;
  readonly typeArguments: readonly TypeTag[];
  readonly arguments: readonly JsonValue[];
}

/** Parses the body, text that is UTF-8. Throws `EncodeRefusal` when every node refuses it, and `Handover` in doubt. */
export function parseSubmission(bodyText: string, steps: Steps): Submission {
  steps.takeText(bodyText);
  const body = readObject(parseBody(bodyText), 'EncodeSubmissionRequest');
  const envelope = {
    sender: readAddress(body, 'sender'),
    sequenceNumber: readU64(body, 'sequence_number'),
    maxGasAmount: readU64(body, 'max_gas_amount'),
    gasUnitPrice: readU64(body, 'gas_unit_price'),
    expirationTimestampSecs: readU64(body, 'expiration_timestamp_secs'),
    nonce: isAbsent(body, 'replay_protection_nonce') ? undefined : readU64(body, 'replay_protection_nonce'),
    secondarySigners: readSigners(body),
  };
  const payload = readObject(readMember(body, 'payload'), 'TransactionPayload');
  switch (readPayloadType(payload)) {
    case 'entry function':
      return { ...envelope, multisigAddress: undefined, call: readCall(payload, steps) };
    case 'multisig':
      return {
        ...envelope,
        multisigAddress: readAddress(payload, 'multisig_address'),
        call: readInnerCall(payload, steps),
      };
  }
}

function parseBody(text: string): JsonValue {
  // A decoder that replaced bad bytes leaves U+FFFD behind; a node would have refused those bytes.
  if (text.includes('\ufffd') || !text.isWellFormed()) throw new Handover('doubtful text');
  try {
    return JsonValue.parseOfNodes(text);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    switch (error.fault) {
      case 'syntax':
        throw malformed(error.message);
      case 'duplicate key':
        throw new Handover('duplicate key');
      case 'reserved key':
      case 'lone surrogate':
        throw new Handover('doubtful text');
      case 'number out of range':
        throw new Handover('doubtful value');
      case 'too deep':
        throw new Handover('nested too deep');
      case 'too many values':
        throw new Handover('too many values');
    }
  }
}

/** Throws for every payload that is not described here. */
function readPayloadType(payload: JsonObject): 'entry function' | 'multisig' {
  const type = readString(payload, 'type');
  switch (type) {
    case 'entry_function_payload':
      return 'entry function';
    case 'multisig_payload':
      return 'multisig';
    case 'script_payload':
      throw new Handover('script payload');
    case 'module_bundle_payload':
      throw new EncodeRefusal(
        'invalid_input',
        "'UserTransactionRequest' invalid: Module bundle payload has been removed",
      );
    default:
      // Newer nodes take more payloads than this list, so one outside of it is no certain refusal.
      throw new Handover(type.includes('encrypted') ? 'encrypted payload' : 'unknown payload');
  }
}

function readInnerCall(payload: JsonObject, steps: Steps): EntryCall | undefined {
  if (isAbsent(payload, 'transaction_payload')) return undefined;
  const inner = readObject(readMember(payload, 'transaction_payload'), 'MultisigTransactionPayload');
  // Newer nodes take a script here; a multisig payload inside of another is nothing established.
  if (readPayloadType(inner) === 'multisig') throw new Handover('unknown payload');
  return readCall(inner, steps);
}

/** Bound of all type arguments together: they are read a second time, as types. */
const mostTypeCharacters = 16 * 1024;

function readCall(payload: JsonObject, steps: Steps): EntryCall {
  const id = readString(payload, 'function');
  const found = FunctionId.find(id);
  if (found === undefined) throw malformed(`Invalid entry function ID ${quote(id)}`);
  const typeArguments = readArray(payload, 'type_arguments').map((item) => {
    if (typeof item !== 'string') throw malformed('type_arguments must be strings');
    return item;
  });
  if (typeArguments.reduce((sum, text) => sum + text.length, 0) > mostTypeCharacters)
    throw new Handover('type argument');
  const values = readArray(payload, 'arguments');
  const tags = typeArguments.map((text) => parseTypeArgument(text, steps));
  return { function: found, typeArguments: tags, arguments: values };
}

function readSigners(body: JsonObject): readonly Address[] | undefined {
  if (isAbsent(body, 'secondary_signers')) return undefined;
  return readArray(body, 'secondary_signers').map((item) => {
    const address = typeof item === 'string' ? Address.find(item) : undefined;
    if (address === undefined) throw malformed('secondary_signers holds something that is no address');
    return address;
  });
}

function readAddress(object: JsonObject, name: string): Address {
  const text = readString(object, name);
  const address = Address.find(text);
  if (address === undefined) throw malformed(`${name}: Invalid account address: ${quote(text)}`);
  return address;
}

function readU64(object: JsonObject, name: string): bigint {
  const text = readString(object, name);
  const value = findU64(text);
  if (value === undefined) throw malformed(`${name}: Parsing u64 string ${quote(text)} failed`);
  return value;
}

function readString(object: JsonObject, name: string): string {
  const value = readMember(object, name);
  if (typeof value !== 'string') throw malformed(`${name} must be a string`);
  return value;
}

function readArray(object: JsonObject, name: string): readonly JsonValue[] {
  const value = readMember(object, name);
  if (value !== null && typeof value === 'object' && value.kind === 'array') return value.items;
  throw malformed(`${name} must be an array`);
}

function readMember(object: JsonObject, name: string): JsonValue {
  const value = object.members.get(name);
  if (value === undefined) throw malformed(`missing field ${name}`);
  return value;
}

/** Optional fields: missing and null are the same (protocol 4.3). */
function isAbsent(object: JsonObject, name: string): boolean {
  return (object.members.get(name) ?? null) === null;
}

function readObject(value: JsonValue, what: string): JsonObject {
  if (value !== null && typeof value === 'object' && value.kind === 'object') return value;
  throw malformed(`${what} must be an object`);
}

function malformed(message: string): EncodeRefusal {
  return new EncodeRefusal('web_framework_error', `parse request payload error: ${message}`);
}

/** Parses one type argument, within what every node version takes (protocol 4.2, 4.3, 5.6). */
function parseTypeArgument(text: string, steps: Steps): TypeTag {
  const tag = TypeTag.find(text);
  if (tag !== undefined) {
    checkNesting(tag, steps, 0, 0);
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
function checkNesting(tag: TypeTag, steps: Steps, nesting: number, weight: number): void {
  steps.take();
  if (nesting > maxTypeTagNesting || weight > maxTypeTagNesting) throw new Handover('type argument');
  switch (tag.kind) {
    case 'primitive':
      if (TypeTag.isSigned(tag.name)) throw new Handover('signed integer');
      return;
    case 'vector':
      checkNesting(tag.element, steps, nesting + 1, weight + 1);
      return;
    case 'struct':
      if (weight + 1 > maxTypeTagNesting) throw new Handover('type argument');
      if (TypeTag.isSigned(tag.module) || TypeTag.isSigned(tag.name)) throw new Handover('signed integer');
      for (const argument of tag.typeArguments) checkNesting(argument, steps, nesting + 1, weight + 2);
  }
}
