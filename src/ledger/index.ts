/** The words of the ledger interface: addresses, types, versions, JSON, headers and errors, read and written without I/O. */
export { type AnswerContent, AnswerForm, JsonBody } from './answer-body.ts';
export { bodyTurns } from './body-turns.ts';
export { GatewayError, quote } from './errors.ts';
export { JsonError, type JsonObject, JsonValue } from './json-value.ts';
export {
  conditions,
  Dialect,
  familyText,
  headerOf,
  type HeaderValues,
  isForNodes,
  isOfInterface,
  type LedgerInfo,
  namedByConnection,
  ofTraces,
} from './ledger-headers.ts';
export { Allowance } from './lib/allowance.ts';
export { Circuit } from './lib/circuit.ts';
export { findNearMiss, nearMissHint } from './lib/near-miss.ts';
export { Spans } from './lib/spans.ts';
export { type CancelSignal, CancelToken, doneOrStopped, setPatientTimeout, settlesWithin } from './stop.ts';
export { TransactionHash } from './transaction-hash.ts';
export { Address, FunctionId, isIdentifier, type StructTag, TypeCursor, TypeTag } from './type-tag.ts';
export { findU64, LedgerVersion, maxU64, withVersion } from './version.ts';
