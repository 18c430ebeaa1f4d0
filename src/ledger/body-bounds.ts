/**
 * Bounds within which the gateway parses the body of a view or of a signing request; a node gets a larger one byte for
 * byte. A body within the bounds takes some 10 ms at worst, one of the 8 MiB that nodes accept would stop the event loop
 * for a second or two.
 */
export const bodyBounds = {
  bytes: 128 * 1024,
  /** Values and escapes of JSON, of which nearly every body has under a hundred. */
  values: 20_000,
  /** Characters of all type arguments together: they are read a second time, as types. */
  typeCharacters: 16 * 1024,
} as const;
