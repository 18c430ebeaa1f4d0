/** The errors of a sample node, with the messages of a real one (protocol 3). */
import type { Address } from '../ledger/address.ts';
import { errorBody } from '../ledger/errors.ts';
import { jsonAnswer, type SampleAnswer } from './answer.ts';

/** Thrown by an operation; the node answers `answer`. */
export class NodeError extends Error {
  override readonly name = 'NodeError';
  readonly answer: SampleAnswer;

  constructor(message: string, answer: SampleAnswer) {
    super(message);
    this.answer = answer;
  }
}

/** A fault found after the operation has read its ledger: it carries the ledger headers. */
export function nodeError(status: number, code: string, message: string): NodeError {
  return new NodeError(message, jsonAnswer(errorBody(code, message), status));
}

/** A fault found before any operation runs: no ledger headers, and a content type without charset (protocol 2.2). */
export function frameworkError(status: number, message: string): NodeError {
  return bareError(status, 'web_framework_error', message);
}

/** Any other fault without ledger headers. */
export function bareError(status: number, code: string, message: string): NodeError {
  const body = errorBody(code, message);
  return new NodeError(message, { status, contentType: 'application/json', body, ledgerHeaders: false });
}

/** 404: the version is above the head. */
export function versionNotFound(version: bigint): NodeError {
  return nodeError(404, 'version_not_found', `Ledger version not found by Ledger version(${version})`);
}

/** 410: the version is below the window. */
export function versionPruned(version: bigint): NodeError {
  return nodeError(410, 'version_pruned', `Ledger version(${version}) has been pruned`);
}

/** 404: the account has no such resource at the version. */
export function resourceNotFound(address: Address, tag: string, version: bigint): NodeError {
  const what = `Address(${address}), Struct tag(${tag}) and Ledger version(${version})`;
  return nodeError(404, 'resource_not_found', `Resource not found by ${what}`);
}

/** 404: the account has no such module at the version. */
export function moduleNotFound(address: Address, name: string, version: bigint): NodeError {
  const what = `Address(${address}), Module name(${name}) and Ledger version(${version})`;
  return nodeError(404, 'module_not_found', `Module not found by ${what}`);
}

/** 404: no account at the address at the version. */
export function accountNotFound(address: Address, version: bigint): NodeError {
  const what = `Address(${address}) and Ledger version(${version})`;
  return nodeError(404, 'account_not_found', `Account not found by ${what}`);
}

/** 404: the resource has no event handle of that name. */
export function structFieldNotFound(address: Address, tag: string, field: string, version: bigint): NodeError {
  const what = `Address(${address}), Struct tag(${tag}), Field name(${field}) and Ledger version(${version})`;
  return nodeError(404, 'struct_field_not_found', `Struct Field not found by ${what}`);
}

/** 410: the first event of the page is below the window. It names no version. */
export function eventsPruned(): NodeError {
  return nodeError(410, 'version_pruned', 'The requested events have been pruned');
}

/** 404: the table has no such key at the version. */
export function tableItemNotFound(handle: Address, key: string, version: bigint): NodeError {
  const what = `Table handle(${handle}), Table key(${key}) and Ledger version(${version})`;
  return nodeError(404, 'table_item_not_found', `Table Item not found by ${what}`);
}

/** `what`: `Transaction hash(0x..)` or `Ledger version(5)`. */
export function transactionNotFound(what: string): NodeError {
  return nodeError(404, 'transaction_not_found', `Transaction not found by ${what}`);
}

/** `what`: `Block height(5)` or `Ledger version(5)`. */
export function blockNotFound(what: string): NodeError {
  return nodeError(404, 'block_not_found', `Block not found by ${what}`);
}

/** 410: the block is below the window. */
export function blockPruned(height: bigint): NodeError {
  return nodeError(410, 'block_pruned', `Block(${height}) has been pruned`);
}
