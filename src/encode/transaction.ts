/** The bytes of a transaction to be signed, and the prefix that names their kind and domain (protocol 5.5 to 5.7). */
import { maxU64 } from '../ledger/index.ts';
import type { CompiledFunction } from './abi.ts';
import type { BcsWriter } from './bcs.ts';
import type { Layout } from './layout.ts';
import { writeArgument } from './move-value.ts';
import type { Steps } from './outcome.ts';
import type { EntryCall, Submission } from './submission.ts';
import { hash } from 'node:crypto';

/** A call with everything its bytes depend on. */
export interface PreparedCall {
  readonly call: EntryCall;
  readonly function: CompiledFunction;
  /** One for each argument. */
  readonly layouts: readonly Layout[];
  /** Preparing the call took some of them; writing its arguments takes more. */
  readonly steps: Steps;
}

/** A submission with every argument resolved, ready to be written. */
export interface PreparedSubmission {
  readonly submission: Submission;
  readonly prepared: PreparedCall | undefined;
}

/** Variants of TransactionPayload; 0 is Script, 1 the dead module bundle. */
const payloadVariant = { entryFunction: 2, multisig: 3, versioned: 4 } as const;
/** Variants of the executable of a versioned payload; 0 is Script. */
const executableVariant = { entryFunction: 1, empty: 2 } as const;

/**
 * The prefixes of one signing domain, each `sha3_256("{domain}::{label}")`, 32 bytes (protocol 5.7): of a RawTransaction, and of
 * one with data, such as a multi-agent one. Aptos ledgers use the domain `APTOS`.
 */
export function signingPrefixes(domain: string) {
  return { domain, plain: sha3(`${domain}::RawTransaction`), withData: sha3(`${domain}::RawTransactionWithData`) };
}

/** A process serves one domain, so that requests need no hash. */
let latest = signingPrefixes('APTOS');

function sha3(label: string): Uint8Array {
  return hash('sha3-256', label, 'buffer');
}

/**
 * Writes prefix ‖ RawTransaction, or with secondary signers prefix ‖ 00 ‖ RawTransaction ‖ `vector<address>`.
 * `chainId` is a u8. Throws `EncodeRefusal` or `Handover` for an argument that does not fit its parameter.
 */
export function writeSigningMessage(
  writer: BcsWriter,
  transaction: PreparedSubmission,
  { chainId, signingDomain }: { readonly chainId: number; readonly signingDomain: string },
): void {
  if (latest.domain !== signingDomain) latest = signingPrefixes(signingDomain);
  const signers = transaction.submission.secondarySigners;
  if (signers === undefined) {
    writer.raw(latest.plain);
    writeRawTransaction(writer, transaction, chainId);
    return;
  }
  writer.raw(latest.withData);
  writer.byte(0);
  writeRawTransaction(writer, transaction, chainId);
  writer.sequenceLength(signers.length);
  for (const signer of signers) writer.address(signer);
}

/** sender[32], sequence u64, payload, max gas u64, gas price u64, expiration u64 (seconds), chain id u8. */
function writeRawTransaction(writer: BcsWriter, transaction: PreparedSubmission, chainId: number): void {
  const { submission } = transaction;
  writer.address(submission.sender);
  writer.integer(submission.nonce === undefined ? submission.sequenceNumber : maxU64, 64);
  writePayload(writer, transaction);
  writer.integer(submission.maxGasAmount, 64);
  writer.integer(submission.gasUnitPrice, 64);
  writer.integer(submission.expirationTimestampSecs, 64);
  writer.byte(chainId);
}

function writePayload(writer: BcsWriter, { submission, prepared }: PreparedSubmission): void {
  const { multisigAddress, nonce } = submission;
  if (nonce !== undefined) {
    writeVersionedPayload(writer, { multisigAddress, nonce, prepared });
    return;
  }
  if (multisigAddress === undefined) {
    writer.byte(payloadVariant.entryFunction);
    writeEntryFunction(writer, required(prepared));
    return;
  }
  writer.byte(payloadVariant.multisig);
  writer.address(multisigAddress);
  writer.bool(prepared !== undefined);
  if (prepared === undefined) return;
  // MultisigTransactionPayload: 0 is an entry function.
  writer.byte(0);
  writeEntryFunction(writer, prepared);
}

/** With a nonce: inner V1 { executable, extra_config V1 { option of multisig address, option of nonce } }. */
function writeVersionedPayload(
  writer: BcsWriter,
  payload: Pick<Submission, 'multisigAddress'> & { nonce: bigint; prepared: PreparedCall | undefined },
): void {
  writer.byte(payloadVariant.versioned);
  writer.byte(0);
  if (payload.prepared === undefined) {
    writer.byte(executableVariant.empty);
  } else {
    writer.byte(executableVariant.entryFunction);
    writeEntryFunction(writer, payload.prepared);
  }
  writer.byte(0);
  writer.bool(payload.multisigAddress !== undefined);
  if (payload.multisigAddress !== undefined) writer.address(payload.multisigAddress);
  writer.bool(true);
  writer.integer(payload.nonce, 64);
}

/** module address[32], module name, function name, `vector<TypeTag>`, `vector<bytes>`. */
function writeEntryFunction(writer: BcsWriter, { call, function: compiled, layouts, steps }: PreparedCall): void {
  writer.raw(compiled.header);
  writer.sequenceLength(call.typeArguments.length);
  for (const tag of call.typeArguments) writer.typeTag(tag);
  writer.sequenceLength(call.arguments.length);
  for (const [index, value] of call.arguments.entries()) {
    writeArgument(writer, required(layouts[index]), value, { index, steps });
  }
}

/** For what the parser and the count check guarantee; a hole there must not become wrong bytes. */
function required<T>(value: T | undefined): T {
  if (value === undefined) throw new RangeError('an incomplete transaction cannot be written');
  return value;
}
