/** What a node sent is no answer, or leaves in doubt where it ends. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError';
  readonly code = 'LEDGERGATE_BAD_ANSWER';
}

/** The connection ended before the answer did. */
export class LostConnectionError extends Error {
  override readonly name = 'LostConnectionError';
  readonly code = 'ECONNRESET';
}
