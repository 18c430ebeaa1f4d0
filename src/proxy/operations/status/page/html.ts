/** HTML as tagged templates, which escape every value that is not `Markup`. */

/** HTML text, which is not escaped again. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A value of a template; `undefined` is empty. */
export type Piece = Markup | string | number | undefined | readonly Piece[];

/** The template's tag: escapes values, in text and in quoted attributes. */
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
