/** Digits in groups of three, so that versions can be compared by eye. */
export function grouped(version: string | number | undefined): string {
  if (version === undefined) return '–';
  return String(version).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}
