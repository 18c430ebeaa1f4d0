/** Rule files in which time goes faster, so that what takes half an hour is seen within a minute. */

const secondsOf: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * Divides every `for:`, every window (`[5m]`) and every `offset` by `factor`. Nothing else changes: no threshold, no
 * label, no text. Times that are numbers in an expression (days of a certificate, versions of an hour) stay what they
 * are, for they are about the ledger and the calendar and not about how long Prometheus looks.
 */
export function hurried(rules: string, factor: number): string {
  const shorter = (_all: string, before: string, count: string, unit: string, after: string): string => {
    const seconds = (Number(count) * (secondsOf[unit] ?? NaN)) / factor;
    return `${before}${Math.ceil(seconds)}s${after}`;
  };
  return rules
    .replaceAll(/(\bfor: )(\d+)([smhd])()/g, shorter)
    .replaceAll(/(\[)(\d+)([smhd])(\])/g, shorter)
    .replaceAll(/(\boffset )(\d+)([smhd])()/g, shorter);
}
