/** The door of ledger. */
export {
  type Address,
  addressBytes,
  canonicalAddress,
  findAddress,
  parseAddress,
  parseTransactionHash,
  type TransactionHash,
} from './address.ts';
export {
  type AnswerContent,
  type AnswerForm,
  findForm,
  JsonBody,
  type JsonList,
  type Members,
  membersOf,
  skimInTurns,
} from './answer-body.ts';
export { bodyTurns, turnlessBytes } from './body-turns.ts';
export { errorBody, type FailedCall, type Fault, GatewayError, quote, type UnavailableReason } from './errors.ts';
export { bodyBounds, findText, JsonError, type JsonFault, parseJson, parseNodeJson, utf8 } from './json-parser.ts';
export { canonicalJson, type JsonObject, type JsonValue } from './json-value.ts';
export {
  type Dialect,
  type DialectName,
  dialectOf,
  findLedgerInfo,
  headerOf,
  type HeaderValues,
  ledgerHeaderFault,
  ledgerHeaderList,
  type LedgerInfo,
  LedgerInfoReader,
  titleCase,
} from './ledger-headers.ts';
export { Allowance } from './lib/allowance.ts';
export { Circuit } from './lib/circuit.ts';
export { Spans } from './lib/spans.ts';
export {
  conditions,
  familyFields,
  type FamilyFields,
  isFamilyText,
  isForNodes,
  isOfInterface,
  listOfText,
  namedByConnection,
  ofTraces,
  textOfFields,
} from './node-headers.ts';
export {
  type CancelSignal,
  CancelToken,
  Deadline,
  doneOrStopped,
  setPatientTimeout,
  settlesWithin,
  stopReason,
  waitWithin,
} from './stop.ts';
export {
  Cursor,
  findFunctionId,
  findPrimitive,
  findTypeTag,
  formatFunctionId,
  formatTypeTag,
  type FunctionId,
  isIdentifier,
  parseStructTag,
  type PrimitiveName,
  signedNames,
  type StructTag,
  type TypeTag,
} from './type-tag.ts';
export { findU64, ledgerVersion, type LedgerVersion, maxU64, parseLedgerVersion, withVersion } from './version.ts';
