/** The errors of a sample node, with the messages of a real one (protocol 3). */
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

/** `vm_error_code` is always a key (protocol 0). */
function errorBody(code: string, message: string): string {
  return JSON.stringify({ message, error_code: code, vm_error_code: null });
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

/** 410: the version is below the window. */
export function versionPruned(version: bigint): NodeError {
  return nodeError(410, 'version_pruned', `Ledger version(${version}) has been pruned`);
}

/** 404: there is no `kind`, such as `Struct Field`. `by`: the values that were looked up, by their names in the message. */
export function notFound(kind: string, by: Readonly<Record<string, string | bigint>>): NodeError {
  const values = Object.entries(by).map(([name, value]) => `${name}(${value})`);
  const last = values.pop();
  const code = `${kind.toLowerCase().replaceAll(' ', '_')}_not_found`;
  return nodeError(404, code, `${kind} not found by ${values.length === 0 ? '' : `${values.join(', ')} and `}${last}`);
}
