/** A duration such as `5s`. */
export const durationPattern = /^\d{1,12}(?:ms|s|m|h|d)$/;
/** A size such as `256MiB`. */
export const sizePattern = /^\d{1,12}(?:B|KiB|MiB|GiB|TiB)$/;

const msPerUnit: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const bytesPerUnit: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** `5s` as 5000; `undefined` for anything but a duration. */
export function findDurationMs(text: unknown): number | undefined {
  return typeof text === 'string' && durationPattern.test(text) ? amount(text, msPerUnit) : undefined;
}

/** `256MiB` as 268435456; `undefined` for anything but a size. */
export function findSizeBytes(text: unknown): number | undefined {
  return typeof text === 'string' && sizePattern.test(text) ? amount(text, bytesPerUnit) : undefined;
}

/** `findDurationMs` of text that the schema accepted. Throws RangeError for other text. */
export function durationMs(text: string): number {
  return accepted(findDurationMs(text), text);
}

/** `findSizeBytes` of text that the schema accepted. Throws RangeError for other text. */
export function sizeBytes(text: string): number {
  return accepted(findSizeBytes(text), text);
}

function amount(text: string, perUnit: Readonly<Record<string, number>>): number | undefined {
  const unit = perUnit[text.replace(/^\d+/, '')];
  const value = unit === undefined ? Number.NaN : Number.parseInt(text, 10) * unit;
  return Number.isSafeInteger(value) ? value : undefined;
}

function accepted(value: number | undefined, text: string): number {
  if (value === undefined) throw new RangeError(`not a quantity with a unit: ${text}`);
  return value;
}
