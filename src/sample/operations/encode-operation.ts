/** `POST /transactions/encode_submission`, answered from recorded requests: a sample node has no encoder. */
import { acceptForm, expectContentType, isJsonMediaType, jsonBody, textMember, type SampleCall } from '../call.ts';
import { jsonAnswer, type SampleAnswer } from '../answer.ts';
import { bareError, nodeError } from '../node-error.ts';
import { findEncodeAnswer } from '../recorded.ts';
import { unsignedMembers } from './transaction-operations.ts';

/** The recorded answer for this node's chain; a request without a recording is refused as unknown code is. */
export function answerEncodeSubmission(call: SampleCall): SampleAnswer {
  expectContentType(call, isJsonMediaType);
  const request = jsonBody(call, unsignedMembers);
  const payload = request.members.get('payload');
  const recorded = findEncodeAnswer(call.ledger.chainId, call.body.toString());
  if (acceptForm(call) === 'bcs') {
    throw bareError(400, 'bcs_not_supported', 'BCS is not supported for encode submission');
  }
  if (recorded !== undefined) {
    const framework = recorded.status !== 200 && recorded.body.includes('"web_framework_error"');
    return { ...jsonAnswer(recorded.body, recorded.status), ledgerHeaders: !framework };
  }
  const isObject = typeof payload === 'object' && payload !== null && payload.kind === 'object';
  const name = (isObject ? textMember(payload, 'function') : undefined) ?? 'an unrecorded payload';
  const prefix = 'The given transaction is invalid: Failed to parse transaction payload';
  throw nodeError(400, 'invalid_input', `${prefix}: could not find entry function by ${name}`);
}
