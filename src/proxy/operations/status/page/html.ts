/** HTML as tagged templates: whatever is put in is text, unless it was made here. */

/** Text that is HTML already, and is not escaped again. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value to put into a template. */
export type Piece = Markup | string | number | undefined | readonly Piece[];

/** Escapes all that is put in, in text and in quoted attributes alike. `undefined` is nothing. */
export function html(texts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  let out = texts[0] ?? '';
  for (const [index, piece] of pieces.entries()) out += textOf(piece) + (texts[index + 1] ?? '');
  return new Markup(out);
}

function textOf(piece: Piece): string {
  if (piece === undefined) return '';
  if (piece instanceof Markup) return piece.text;
  if (typeof piece === 'object') return piece.map(textOf).join('');
  return escapeHtml(String(piece));
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '');
}
