/** Tables in the text of tests: a line is a row, and `|` stands between its cells. */

/** The cells of each row, without the white space around them. */
export function rowsIn(table: string): readonly (readonly string[])[] {
  return table
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()));
}
