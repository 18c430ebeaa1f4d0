/** Forms that several keys share: bounded numbers, durations and sizes with units, addresses, ciphers. */
import { getCiphers } from 'node:tls';
import { z } from 'zod';

/** Chain ids by the names of public networks. */
export const chainIds = { mainnet: 1, testnet: 2 } as const;

/** One hour in ms. */
export const hour = 3_600_000;

const liveSchemas = new WeakSet<z.core.$ZodType>();

/** Marks a key that changes at run time, with every key below it. Any other needs a restart. */
export function live<T extends z.ZodType>(schema: T): T {
  liveSchemas.add(schema);
  return schema;
}

/** The paths of the marked keys below `schema`, a section, sorted. */
export function liveKeysOf(schema: z.core.$ZodType, prefix = ''): readonly string[] {
  return Object.entries(shapeOf(schema))
    .flatMap(([key, child]) => (liveSchemas.has(child) ? [prefix + key] : liveKeysOf(child, `${prefix}${key}.`)))
    .sort();
}

/** The keys of a section, optional or with defaults; none of anything else. */
function shapeOf(schema: z.core.$ZodType): Readonly<Record<string, z.core.$ZodType>> {
  if (schema instanceof z.ZodObject) return schema.shape;
  const isWrapped =
    schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault || schema instanceof z.ZodDefault;
  return isWrapped ? shapeOf(schema.unwrap()) : {};
}

/** A text of this form; `error` for every other value. */
export function pattern(form: RegExp, error: string) {
  return z.string({ error }).regex(form, { error, abort: true });
}

/** A text that is not empty. */
export function filled(error: string) {
  return z.string({ error }).min(1, { error: 'must not be empty' });
}

/** True or false. */
export function flag(fallback: boolean) {
  return z.boolean({ error: 'expected true or false' }).default(fallback);
}

/** A list with at least one item; `empty` is the message for an empty list, `error` for other values. */
export function filledList<T extends z.ZodType>(item: T, error: string, empty: string) {
  return z.array(item, { error }).min(1, { error: empty });
}

/** A whole number in bounds. */
export function whole(min: number, max: number) {
  const error = `expected a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error });
}

/** A number, whole or not. */
export function part(min: number, max: number, fallback: number, error = `expected a number from ${min} to ${max}`) {
  return z.number({ error }).min(min, { error }).max(max, { error }).default(fallback);
}

/** A number from 0 to 1. */
export function share(fallback: number) {
  return part(0, 1, fallback, 'expected a share from 0 to 1');
}

/** A text such as `5s`, from `minMs` to `maxMs`. */
export function duration(fallback: string, minMs: number, maxMs: number) {
  return requiredDuration(minMs, maxMs).default(fallback);
}

/** A `duration` without a default. */
export function requiredDuration(minMs: number, maxMs: number) {
  const error = 'expected a duration with a unit (ms, s, m, h, d), such as "5s" or "200ms"';
  return pattern(durationPattern, error).refine((text) => isBetween(findDurationMs(text), minMs, maxMs), {
    // Node's timers fire at once above 2^31 ms.
    error: `expected a duration from ${shortDuration(minMs)} to ${shortDuration(maxMs)}`,
  });
}

/** A text such as `256MiB`. */
export function size(fallback: string, minBytes: number) {
  const error = 'expected a size with a unit (B, KiB, MiB, GiB, TiB), such as "256MiB"';
  return pattern(sizePattern, error)
    .refine((text) => isBetween(findSizeBytes(text), minBytes, Number.MAX_SAFE_INTEGER), {
      error: `expected a size of at least ${minBytes / 2 ** 20}MiB`,
    })
    .default(fallback);
}

/** The form of `baseAddress` that editors check; `baseAddressFault` gives the reason. */
const baseAddressPattern = /^https?:\/\/[^\s/?#@\\]+(?:\/[^\s?#@\\]*)?$/;

/** An `http:` or `https:` address to which paths are appended, such as `example`. No message quotes the text. */
export function baseAddress(example: string) {
  const fault = ({ input }: { readonly input?: unknown }): string | undefined =>
    baseAddressFault(String(input), example);
  return z
    .string({ error: `expected a base address such as "${example}"` })
    .regex(baseAddressPattern, { error: fault, abort: true })
    .refine((text) => baseAddressFault(text, example) === undefined, { error: fault });
}

function baseAddressFault(text: string, example: string): string | undefined {
  if (!/^https?:\/\//.test(text)) return `expected a base address such as "${example}"`;
  // Logs, metrics and the status page contain the address.
  if (/^https?:\/\/[^/?#]*@/.test(text)) return 'must not carry credentials';
  if (/[?#]/.test(text)) return 'must end with its path: no "?" and no "#"';
  if (!baseAddressPattern.test(text) || !URL.canParse(text)) return 'is not a valid address';
  return undefined;
}

/** Headers that carry credentials, by name. */
export function credentials() {
  return z.record(
    pattern(/^[A-Za-z][\w-]{0,62}$/, 'expected the name of a header such as "Authorization"'),
    pattern(/^[!-~](?:[ !-~]*[!-~])?$/, 'must be visible ASCII characters, such as "Bearer ${NODE_KEY}"'),
    { error: 'must be headers by name' },
  );
}

/** An address to listen on. */
export function host(fallback: string) {
  return pattern(/^[\w.:%-]+$/, 'expected an IP address (IPv6 without brackets) or a host name').default(fallback);
}

/** A `redis:` or `rediss:` URL. */
export function redisUrl() {
  const error = 'must be an address such as "redis://10.0.0.1:6379"';
  return pattern(/^rediss?:\/\/[^\s/?#]+(?:[/?][^\s#]*)?$/, error).refine(isWhole, {
    error: `${error}; special characters of a password are percent-encoded`,
  });
}

/** A password with "/" or "?" would end the address early: the rest would be a path, and the user the server's name. */
function isWhole(text: string): boolean {
  return URL.canParse(text) && !/[/?].*@/.test(text.replace(/^rediss?:\/\//, ''));
}

/** A name that is valid in labels and paths. */
export function named() {
  return pattern(/^[A-Za-z][\w.-]{0,62}$/, 'expected a letter, then at most 62 letters, digits or any of "._-"');
}

function isBetween(value: number | undefined, min: number, max: number): boolean {
  return value !== undefined && value >= min && value <= max;
}

function shortDuration(ms: number): string {
  if (ms > 0 && ms % (24 * hour) === 0) return `${ms / (24 * hour)}d`;
  if (ms > 0 && ms % hour === 0) return `${ms / hour}h`;
  return ms > 0 && ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`;
}

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

/** Ciphers with forward secrecy and authenticated encryption (RFC 9325 4.2), best first; no CBC, no RSA key exchange. */
export const defaultCiphers: readonly string[] = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
];

/** Whether this build of OpenSSL has a cipher of that name. */
export function isCipher(name: string): boolean {
  knownCiphers ??= new Set(getCiphers());
  return knownCiphers.has(name.toLowerCase());
}

/** Lower case; filled by the first check. */
let knownCiphers: ReadonlySet<string> | undefined;
