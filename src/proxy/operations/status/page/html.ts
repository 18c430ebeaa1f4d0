/** HTML as tagged templates, which escape every value that is not `Markup`; tables, lists and bars made of them. */

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

/** A column of a table: its title, and its cell in a row. */
export type Column<Row> = readonly [title: string, cell: (row: Row) => Piece];

/** A table whose first column names its rows. */
export function table<Row>(caption: string, columns: readonly Column<Row>[], rows: readonly Row[]): Markup {
  const heads = columns.map(
    ([title], index) => html`<th scope="col" ${index === 0 ? undefined : html` class="number"`}>${title}</th>`,
  );
  const cellOf = (row: Row, [, cell]: Column<Row>, index: number): Markup =>
    index === 0 ? html`<th scope="row">${cell(row)}</th>` : html`<td class="number">${cell(row)}</td>`;
  const none = html`<td colspan="${columns.length}" class="none">nothing yet</td>`;
  const cells = rows.map((row) => columns.map((column, index) => cellOf(row, column, index)));
  return html`<table>
    <caption>
      ${caption}
    </caption>
    <thead>
      <tr>
        ${heads}
      </tr>
    </thead>
    <tbody>
      ${(rows.length === 0 ? [none] : cells).map(
        (row) =>
          html`<tr>
            ${row}
          </tr>`,
      )}
    </tbody>
  </table>`;
}

/** Names with their values. */
export function list(rows: readonly (readonly [string, Piece])[]): Markup {
  return html`<dl>
    ${rows.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

/** A bar beside the number that it repeats. */
export function meter(share: number): Markup {
  const width = Math.round(Math.min(1, share) * 1_000) / 10;
  return html`<svg class="meter" aria-hidden="true" width="28" height="8">
    <rect class="track" width="100%" height="8" rx="2" />
    <rect class="fill" width="${width}%" height="8" rx="2" />
  </svg>`;
}

const signs = { good: '●', warn: '▲', bad: '■' } as const;

/** Words in the colour of their tone, behind its sign. */
export function toned(tone: keyof typeof signs, words: Piece): Markup {
  return html`<span class="${tone}"><span aria-hidden="true">${signs[tone]}</span> ${words}</span>`;
}
