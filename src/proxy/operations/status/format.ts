/** Numbers as text, for the page and the command. */

const none = '–';

/** Digits in groups of three, so that versions can be compared by eye. */
export function grouped(version: string | number | undefined): string {
  if (version === undefined) return none;
  return String(version).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

/** A number in at most three digits: `9.4k`, `12M`. */
export function short(value: number): string {
  const [size, unit] = [
    [1e12, 'T'],
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ].find(([least]) => value >= Number(least)) ?? [1, ''];
  const scaled = value / Number(size);
  const digits = scaled < 10 && !Number.isInteger(scaled) ? 1 : 0;
  return `${scaled.toFixed(digits)}${unit}`;
}

/** A time with its unit: `4.3 ms`, `1.5 s`. */
export function milliseconds(ms: number | undefined): string {
  if (ms === undefined) return none;
  if (ms >= 1_000) return `${(ms / 1_000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return `${inMs(ms)} ms`;
}

/** A time in milliseconds, where the column names the unit. */
export function inMs(ms: number | undefined): string {
  if (ms === undefined) return none;
  return ms < 10 ? ms.toFixed(ms < 1 ? 2 : 1) : ms.toFixed(0);
}

/** A rate with its unit: `1.2k/s`. */
export function perSecond(rate: number): string {
  return `${rate < 10 && rate > 0 ? rate.toFixed(1) : short(Math.round(rate))}/s`;
}

/** A share of 0 to 1 in percent, rounded down: 100 % means all. */
export function percent(share: number | undefined): string {
  if (share === undefined) return none;
  const floored = Math.floor(share * 1_000) / 10;
  return `${share === 1 || share === 0 ? (share * 100).toFixed(0) : floored.toFixed(1)} %`;
}

/** A size in binary units: `2.0 KiB`. */
export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let scaled = count / 1024;
  let unit = 0;
  while (scaled >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled < 10 ? scaled.toFixed(1) : scaled.toFixed(0)} ${units[unit]}`;
}

/** The two largest units of a time. */
export function duration(seconds: number): string {
  const units = [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
    [1, 's'],
  ] as const;
  const first = units.findIndex(([size]) => seconds >= size);
  if (first === -1) return '0 s';
  let left = Math.floor(seconds);
  return units
    .slice(first, first + 2)
    .flatMap(([size, unit]) => {
      const count = Math.floor(left / size);
      left -= count * size;
      return count === 0 ? [] : [`${count} ${unit}`];
    })
    .join(' ');
}

/** `HH:MM:SS` of an ISO time, UTC. */
export function clock(iso: string): string {
  return iso.slice(11, 19);
}
