/** Makes up one case of the differential fuzz: modules, a request as JSON text, and the same transaction as values. */
import type { ReferenceCall, ReferenceTag, ReferenceTransaction } from './reference.ts';
import { Random } from '../support/random.ts';
import { address, name } from './generate-name.ts';
import { generateType, type Generic, type World } from './generate-type.ts';
import { generateInvalid, generateValue, spellAddress, spellObject, spellU64 } from './generate-value.ts';

export interface FuzzCase {
  readonly bodyText: string;
  /** Bodies of module answers, by `address::name` with the address in 64 digits. */
  readonly modules: ReadonlyMap<string, string>;
  readonly transaction: ReferenceTransaction;
  /** One argument was made wrong: nothing may come out. */
  readonly isInvalid: boolean;
}

export function generateCase(seed: number): FuzzCase {
  const random = new Random(seed);
  const world: World = { random, structs: [] };
  const multisigAddress = random.chance(5) ? address(random) : undefined;
  const called = multisigAddress !== undefined && random.chance(3) ? undefined : generateCall(world);
  const transaction: ReferenceTransaction = {
    sender: address(random),
    sequenceNumber: random.integer(64),
    maxGasAmount: random.integer(64),
    gasUnitPrice: random.integer(64),
    expirationTimestampSecs: random.integer(64),
    chainId: random.below(256),
    nonce: random.chance(4) ? random.integer(64) : undefined,
    secondarySigners: random.chance(4) ? Array.from({ length: random.below(4) }, () => address(random)) : undefined,
    multisigAddress,
    call: called?.call,
  };
  return {
    bodyText: bodyOf(random, transaction, called?.payload),
    modules: modulesOf(world, called),
    transaction,
    isInvalid: called?.isInvalid ?? false,
  };
}

interface GeneratedCall {
  readonly call: ReferenceCall;
  /** The entry function payload as JSON. */
  readonly payload: string;
  readonly params: readonly string[];
  readonly isInvalid: boolean;
}

const signers = ['signer', '&signer', '&mut signer'];

function generateCall(world: World): GeneratedCall {
  const { random } = world;
  const generics = Array.from({ length: random.chance(2) ? 0 : random.below(4) }, () => generateGeneric(world));
  const argumentTypes = Array.from({ length: random.below(6) }, () => generateType(world, generics, 0));
  const values = argumentTypes.map((type) => generateValue(random, type, false));
  const wrong = random.chance(8) && values.length > 0 ? random.below(values.length) : -1;
  const texts = values.map(({ json }, at) => (at === wrong ? generateInvalid(random, argumentTypes[at]!) : json));
  const params = argumentTypes.map((type) => type.text);
  while (random.chance(2)) params.splice(random.below(params.length + 1), 0, random.pick(signers));
  const call: ReferenceCall = {
    address: address(random),
    module: name(random),
    name: name(random),
    typeArguments: generics.map(({ tag }) => tag),
    arguments: argumentTypes.map(({ type }, at) => ({ type, value: values[at]!.value })),
  };
  const payload = spellObject(random, [
    ['type', '"entry_function_payload"'],
    ['function', JSON.stringify(`${spellAddress(random, call.address)}::${call.module}::${call.name}`)],
    ['type_arguments', `[${generics.map(({ text }) => JSON.stringify(text)).join(',')}]`],
    ['arguments', `[${texts.join(' , ')}]`],
  ]);
  return { call, payload, params, isInvalid: wrong !== -1 };
}

function generateGeneric(world: World): Generic {
  const { random } = world;
  const type = random.chance(3) ? undefined : generateType(world, [], 2, true);
  if (type !== undefined && weightOf(type.tag) <= maxWeight) return { text: type.text, tag: type.tag, type };
  const { text, tag } = generateTag(random, random.pick([1, 2, 4, 6, maxWeight]));
  return { text, tag, type: undefined };
}

/** Beyond this, nodes refuse a type argument (protocol 4.2). */
const maxWeight = 8;

/** The greatest depth of a tag: one for a vector around, two for a struct around, one for being a struct. */
function weightOf(tag: ReferenceTag): number {
  if ('of' in tag) return 1 + weightOf(tag.of);
  return 'address' in tag ? Math.max(1, ...tag.typeArguments.map((inner) => 2 + weightOf(inner))) : 0;
}

const primitives = ['bool', 'u8', 'u16', 'u32', 'u64', 'u128', 'u256', 'address', 'signer'];

/** A tag of at most this weight. */
function generateTag(random: Random, weight: number): { text: string; tag: ReferenceTag } {
  const space = random.chance(6) ? ' ' : '';
  if (weight >= 1 && random.chance(2)) {
    const inner = generateTag(random, weight - 1);
    return { text: `vector${space}<${inner.text}${space}>`, tag: { kind: 'vector', of: inner.tag } };
  }
  if (weight >= 1 && random.chance(2)) {
    const inner = Array.from({ length: weight >= 2 ? random.below(3) : 0 }, () => generateTag(random, weight - 2));
    const [at, module, struct] = [address(random), name(random), name(random)];
    const list = inner.length === 0 ? '' : `<${inner.map(({ text }) => text).join(`,${space}`)}>`;
    const typeArguments = inner.map(({ tag }) => tag);
    return {
      text: `0x${at.replace(/^0+(?=.)/, '')}${space}::${module}::${space}${struct}${list}`,
      tag: { kind: 'struct', address: at, module, name: struct, typeArguments },
    };
  }
  const kind = random.pick(primitives);
  return { text: `${space}${kind}`, tag: { kind } };
}

function modulesOf(world: World, called: GeneratedCall | undefined): ReadonlyMap<string, string> {
  const modules = new Map<string, string>();
  for (const struct of world.structs) {
    const abi = { address: `0x${struct.address}`, name: struct.module, exposed_functions: [], structs: [struct.abi] };
    modules.set(`${struct.address}::${struct.module}`, JSON.stringify({ bytecode: '0x', abi }));
  }
  if (called === undefined) return modules;
  const { call, params } = called;
  const generics = call.typeArguments.map(() => ({ constraints: [] }));
  const entry = { name: call.name, visibility: 'private', is_entry: true, generic_type_params: generics, params };
  const decoy = { ...entry, name: `${call.name}_`, params: ['u8'] };
  const abi = { address: `0x${call.address}`, name: call.module, exposed_functions: [decoy, entry], structs: [] };
  modules.set(`${call.address}::${call.module}`, JSON.stringify({ bytecode: '0x', abi }));
  return modules;
}

function bodyOf(random: Random, transaction: ReferenceTransaction, payload: string | undefined): string {
  const { multisigAddress, nonce, secondarySigners } = transaction;
  const inner: [string, string][] = payload === undefined ? [] : [['transaction_payload', payload]];
  const multisig = spellObject(random, [
    ['type', '"multisig_payload"'],
    ['multisig_address', JSON.stringify(spellAddress(random, multisigAddress ?? '0'))],
    ...inner,
  ]);
  const members: [string, string][] = [
    ['sender', JSON.stringify(spellAddress(random, transaction.sender))],
    ['sequence_number', spellU64(random, transaction.sequenceNumber)],
    ['max_gas_amount', spellU64(random, transaction.maxGasAmount)],
    ['gas_unit_price', spellU64(random, transaction.gasUnitPrice)],
    ['expiration_timestamp_secs', spellU64(random, transaction.expirationTimestampSecs)],
    ['payload', multisigAddress === undefined ? payload! : multisig],
  ];
  if (nonce !== undefined) members.push(['replay_protection_nonce', spellU64(random, nonce)]);
  if (secondarySigners !== undefined) {
    const list = secondarySigners.map((signer) => JSON.stringify(spellAddress(random, signer)));
    members.push(['secondary_signers', `[${list.join(',')}]`]);
  }
  return spellObject(random, members);
}
