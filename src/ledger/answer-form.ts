/** The two forms in which nodes answer (protocol 2.3). */

/** The encoding of an answer. */
export type AnswerForm = 'json' | 'bcs';

/** The form that a `Content-Type` promises; `undefined` for anything that no node sends. */
export function findForm(contentType: string | undefined): AnswerForm | undefined {
  // The exact texts of nodes, ahead of the general parser.
  if (contentType === 'application/json') return 'json';
  if (contentType === 'application/x-bcs') return 'bcs';
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  if (mediaType === 'application/json') return 'json';
  return mediaType === 'application/x-bcs' ? 'bcs' : undefined;
}
