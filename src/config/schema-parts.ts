/** Forms that several keys of the config have: numbers in bounds, durations and sizes with units, addresses. */
import { z } from 'zod';
import { durationPattern, findDurationMs, findSizeBytes, sizePattern } from './units.ts';

/** Chain ids by the names of public networks. */
export const chainIds = { mainnet: 1, testnet: 2 } as const;

/** In ms; bounds of durations are multiples of it. */
export const hour = 3_600_000;

export function whole(min: number, max: number) {
  const error = `expected a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

export function part(min: number, max: number, fallback: number) {
  const error = `expected a number from ${min} to ${max}`;
  return z.number({ error }).min(min, { error }).max(max, { error }).default(fallback);
}

export function share(fallback: number) {
  const error = 'expected a share from 0 to 1';
  return z.number({ error }).min(0, { error }).max(1, { error }).default(fallback);
}

export function duration(fallback: string, minMs: number, maxMs: number) {
  const error = 'expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms"';
  return z
    .string({ error })
    .regex(durationPattern, { error, abort: true })
    .refine((text) => isBetween(findDurationMs(text), minMs, maxMs), {
      // Node's timers fire at once when told to wait longer than 2^31 ms: bounded here, no timer can be.
      error: `expected a duration from ${shortDuration(minMs)} to ${shortDuration(maxMs)}`,
    })
    .default(fallback);
}

export function size(fallback: string, minBytes: number) {
  const error = 'expected a size with a unit (B, KiB, MiB, GiB, TiB), such as "256MiB"';
  return z
    .string({ error })
    .regex(sizePattern, { error, abort: true })
    .refine((text) => isBetween(findSizeBytes(text), minBytes, Number.MAX_SAFE_INTEGER), {
      error: `expected a size of at least ${minBytes / 2 ** 20}MiB`,
    })
    .default(fallback);
}

export function host(fallback: string) {
  const error = 'expected an IP address (IPv6 without brackets) or a host name';
  return z
    .string({ error })
    .regex(/^[\w.:%-]+$/, { error })
    .default(fallback);
}

export function redisUrl() {
  const error = 'must be an address such as "redis://10.0.0.1:6379"';
  return z.string({ error }).regex(/^rediss?:\/\/[^\s/?#]+(?:[/?][^\s#]*)?$/, { error });
}

function isBetween(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}

function shortDuration(ms: number): string {
  if (ms > 0 && ms % (24 * hour) === 0) return `${ms / (24 * hour)}d`;
  if (ms > 0 && ms % hour === 0) return `${ms / hour}h`;
  return ms > 0 && ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

export function expectedBasePath(): string {
  return 'expected a path such as "/v1": a leading slash, no trailing one';
}

export function expectedName(): string {
  return 'expected a letter, then at most 62 letters, digits or any of "._-"';
}

export function expectedDomain(): string {
  return 'expected capital letters, digits and "_", such as "APTOS"';
}

export function expectedHost(): string {
  return 'expected a host name such as "gateway.example" or "*.example", without a port';
}
