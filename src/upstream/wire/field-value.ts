/** What HTTP forbids in the value of a header (RFC 9110 5.5): a line feed would begin another one. A byte a character. */
export const forbiddenInValue = /[^\t -~\x80-\xff]/;
