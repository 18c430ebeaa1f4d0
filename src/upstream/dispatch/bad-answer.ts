/** Faults of an exchange that this side of the HTTP client finds. */

/** The bytes from a node are not an acceptable answer. Counts as a failure of the attempt. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError';
  readonly code = 'LEDGERGATE_BAD_ANSWER';
}

/** The connection was closing while the request went out, so a read may be sent again (`lost-connection.ts`). */
export class LostConnectionError extends Error {
  override readonly name = 'LostConnectionError';
  readonly code = 'ECONNRESET';
}
