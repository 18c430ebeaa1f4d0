/** Errors of an exchange, found by checks beyond those of undici. */

/** The bytes from a node are no acceptable answer: a failed attempt. */
export class BadAnswerError extends Error {
  override readonly name = 'BadAnswerError';
  readonly code = 'LEDGERGATE_BAD_ANSWER';
}

/** The connection was closing while the request went out, so a read may be sent again (`lost-connection.ts`). */
export class LostConnectionError extends Error {
  override readonly name = 'LostConnectionError';
  readonly code = 'ECONNRESET';
}
