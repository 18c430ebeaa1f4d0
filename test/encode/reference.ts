/**
 * A second encoder, built on @mysten/bcs straight from the tables of protocol 5.5 to 5.7. It shares no code with
 * src/encode: it takes values, not JSON, and lays out whole structures where src/encode writes piece by piece.
 */
import { bcs, type BcsType } from '@mysten/bcs';
import { sha3_256 } from '@noble/hashes/sha3.js';
import { utf8ToBytes } from '@noble/hashes/utils.js';

/** A type of the generated ABIs. Structs carry their fields, with type parameters already replaced. */
export type ReferenceType =
  | { readonly kind: 'bool' | 'address' | 'string' | 'object' | 'signer' }
  | { readonly kind: 'integer'; readonly bits: number }
  | { readonly kind: 'vector' | 'option'; readonly of: ReferenceType }
  | { readonly kind: 'struct'; readonly fields: readonly ReferenceType[] };

export interface ReferenceCall {
  readonly address: string;
  readonly module: string;
  readonly name: string;
  readonly typeArguments: readonly ReferenceTag[];
  readonly arguments: readonly { readonly type: ReferenceType; readonly value: unknown }[];
}

export type ReferenceTag =
  | { readonly kind: string }
  | { readonly kind: 'vector'; readonly of: ReferenceTag }
  | {
      readonly kind: 'struct';
      readonly address: string;
      readonly module: string;
      readonly name: string;
      readonly typeArguments: readonly ReferenceTag[];
    };

export interface ReferenceTransaction {
  readonly sender: string;
  readonly sequenceNumber: bigint;
  readonly maxGasAmount: bigint;
  readonly gasUnitPrice: bigint;
  readonly expirationTimestampSecs: bigint;
  readonly chainId: number;
  readonly nonce: bigint | undefined;
  readonly secondarySigners: readonly string[] | undefined;
  readonly multisigAddress: string | undefined;
  readonly call: ReferenceCall | undefined;
}

type Serial = BcsType<unknown, unknown>;

const serial = (type: unknown): Serial => type as Serial;

/** 64 hex digits. */
const address = bcs.bytes(32).transform({ input: (hex: string) => Buffer.from(hex, 'hex'), output: String });

const integers = new Map<number, Serial>([
  [8, serial(bcs.u8())],
  [16, serial(bcs.u16())],
  [32, serial(bcs.u32())],
  [64, serial(bcs.u64())],
  [128, serial(bcs.u128())],
  [256, serial(bcs.u256())],
]);

/** The layout of a Move value. */
export function referenceLayout(type: ReferenceType): Serial {
  switch (type.kind) {
    case 'bool':
      return serial(bcs.bool());
    case 'address':
    case 'object':
      return serial(address);
    case 'string':
      return serial(bcs.string());
    case 'integer':
      return integers.get(type.bits)!;
    case 'vector':
      return serial(bcs.vector(referenceLayout(type.of)));
    case 'option':
      // Spelled out, because bcs.option cannot distinguish the two empty options of an option of an option.
      return serial(bcs.enum('Option', { none: null, some: referenceLayout(type.of) }));
    case 'struct':
      return serial(bcs.tuple(type.fields.map(referenceLayout)));
    case 'signer':
      throw new Error('a signer is no argument');
  }
}

const typeTag: Serial = serial(
  bcs.enum('TypeTag', {
    bool: null,
    u8: null,
    u64: null,
    u128: null,
    address: null,
    signer: null,
    vector: bcs.lazy(() => typeTag),
    struct: bcs.lazy(() => structTag),
    u16: null,
    u32: null,
    u256: null,
  }),
);

const structTag: Serial = serial(
  bcs.struct('StructTag', {
    address,
    module: bcs.string(),
    name: bcs.string(),
    typeArguments: bcs.vector(typeTag),
  }),
);

const entryFunction = bcs.struct('EntryFunction', {
  address,
  module: bcs.string(),
  name: bcs.string(),
  typeArguments: bcs.vector(typeTag),
  arguments: bcs.vector(bcs.byteVector()),
});

const unused = bcs.tuple([]);

const payload = bcs.enum('TransactionPayload', {
  script: unused,
  moduleBundle: unused,
  entryFunction,
  multisig: bcs.struct('Multisig', {
    address,
    payload: bcs.option(bcs.enum('MultisigTransactionPayload', { entryFunction })),
  }),
  payload: bcs.enum('TransactionPayloadInner', {
    v1: bcs.struct('V1', {
      executable: bcs.enum('TransactionExecutable', { script: unused, entryFunction, empty: null }),
      extraConfig: bcs.enum('TransactionExtraConfig', {
        v1: bcs.struct('V1', { multisigAddress: bcs.option(address), nonce: bcs.option(bcs.u64()) }),
      }),
    }),
  }),
});

const rawTransaction = bcs.struct('RawTransaction', {
  sender: address,
  sequenceNumber: bcs.u64(),
  payload,
  maxGasAmount: bcs.u64(),
  gasUnitPrice: bcs.u64(),
  expirationTimestampSecs: bcs.u64(),
  chainId: bcs.u8(),
});

const rawTransactionWithData = bcs.enum('RawTransactionWithData', {
  multiAgent: bcs.struct('MultiAgent', { rawTransaction, secondarySigners: bcs.vector(address) }),
});

const plainPrefix = sha3_256(utf8ToBytes('APTOS::RawTransaction'));
const withDataPrefix = sha3_256(utf8ToBytes('APTOS::RawTransactionWithData'));

/** The answer of encode_submission: `0x` and hex. */
export function referenceHex(transaction: ReferenceTransaction): string {
  const raw = {
    ...transaction,
    sequenceNumber: transaction.nonce === undefined ? transaction.sequenceNumber : 2n ** 64n - 1n,
    payload: payloadOf(transaction),
  };
  const { secondarySigners } = transaction;
  if (secondarySigners === undefined) return hexOf(plainPrefix, rawTransaction.serialize(raw).toBytes());
  const withData = { multiAgent: { rawTransaction: raw, secondarySigners: [...secondarySigners] } };
  return hexOf(withDataPrefix, rawTransactionWithData.serialize(withData).toBytes());
}

function payloadOf({ call, multisigAddress, nonce }: ReferenceTransaction): Parameters<typeof payload.serialize>[0] {
  const called = call === undefined ? null : callOf(call);
  if (nonce !== undefined) {
    const executable = called === null ? { empty: null } : { entryFunction: called };
    return {
      payload: { v1: { executable, extraConfig: { v1: { multisigAddress: multisigAddress ?? null, nonce } } } },
    };
  }
  if (multisigAddress !== undefined) {
    return { multisig: { address: multisigAddress, payload: called === null ? null : { entryFunction: called } } };
  }
  return { entryFunction: called! };
}

function callOf(call: ReferenceCall): Parameters<typeof entryFunction.serialize>[0] {
  return {
    address: call.address,
    module: call.module,
    name: call.name,
    typeArguments: call.typeArguments.map(tagOf),
    arguments: call.arguments.map(({ type, value }) => referenceLayout(type).serialize(value).toBytes()),
  };
}

function tagOf(tag: ReferenceTag): unknown {
  if ('of' in tag) return { vector: tagOf(tag.of) };
  if (!('address' in tag)) return { [tag.kind]: null };
  return { struct: { ...tag, typeArguments: tag.typeArguments.map(tagOf) } };
}

function hexOf(prefix: Uint8Array, bytes: Uint8Array): string {
  return `0x${Buffer.from(prefix).toString('hex')}${Buffer.from(bytes).toString('hex')}`;
}
