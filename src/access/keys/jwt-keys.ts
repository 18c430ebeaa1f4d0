/**
 * The public keys of an issuer of tokens (JWKS, RFC 7517), from its address or from a file: renewed in the background, and
 * kept while they cannot be read. Keys of other kinds (shared secrets, encryption, short RSA) are left out.
 */
import { createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { createLocalJWKSet, JSONWebKeySet } from 'jose';
import { Client } from 'undici';
import { type AccessConfig, type Problem, WatchedFiles } from '../../config/index.ts';
import { Circuit } from '../../ledger/index.ts';
import type { Journal, SharedFiles } from '../../metrics/index.ts';

/** Tokens of the config. */
export type JwtConfig = NonNullable<AccessConfig['jwt']>;

/** A key that verifies signatures, public members alone (RFC 7518 6). */
type PublicKey = Readonly<Partial<Record<(typeof publicMembers)[number], string>>>;
const publicMembers = ['kty', 'kid', 'alg', 'use', 'n', 'e', 'crv', 'x', 'y'] as const;

/** The keys in force. */
export interface KeySet {
  readonly find: ReturnType<typeof createLocalJWKSet>;
  /** The keys of each `kid` as text; `undefined` names keys without one. */
  readonly byKid: ReadonlyMap<string | undefined, string>;
}

/** Receivers of an issuer's events. */
export interface IssuerContext {
  readonly metrics: { reloaded(source: 'issuer', result: 'ok' | 'failed'): void };
  readonly journal: Journal;
  /** Absent in a single process. */
  readonly files: SharedFiles | undefined;
}

/** Interval of renewals, in ms: a key that the issuer has removed verifies no token any more after it. */
const usualRenewMs = 300_000;
/** Pauses after failed reads. */
const retries = { firstMs: 1_000, longestMs: 60_000, calmMs: 0 };
const readMs = 5_000;
/** Bytes of a key set; the largest public ones have some 30,000. */
const mostBytes = 256 * 1024;
const mostKeys = 100;
/** Renewals that tokens with an unknown `kid` start are this far apart, in ms: anyone can name a `kid`. */
const unknownKidMs = 30_000;

/** A failed read, in words of a closed set: neither an address nor bytes of the answer. */
class UnreadError extends Error {}

/** The keys of one issuer, in one process. */
export class IssuerKeys {
  /** Resolves after the first read. */
  readonly started: Promise<void>;
  readonly #config: JwtConfig;
  readonly #context: IssuerContext;
  readonly #onChange: (next: KeySet, before: KeySet | undefined) => void;
  readonly #renewMs: number;
  readonly #files: WatchedFiles | undefined;
  #set: KeySet | undefined;
  #text = '';
  #reading: Promise<void> | undefined;
  /** Open while the last read has failed. */
  readonly #circuit: Circuit;
  #askedAtMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  readonly #closing = new AbortController();

  /** `onChange`: called with other keys than before. `renewMs`: interval of renewals. */
  constructor(
    config: JwtConfig,
    context: IssuerContext,
    onChange: (next: KeySet, before: KeySet | undefined) => void,
    renewMs = usualRenewMs,
  ) {
    this.#config = config;
    this.#context = context;
    this.#onChange = onChange;
    this.#renewMs = renewMs;
    this.#circuit = new Circuit({ ...retries, longestMs: Math.min(retries.longestMs, renewMs) });
    const { file } = config.jwks;
    if (file !== undefined) {
      this.#files = new WatchedFiles([file]);
      const renew = (): void => void this.renew();
      this.#files.watch({ onChange: renew, onMissing: renew });
    }
    this.started = this.renew();
  }

  get set(): KeySet | undefined {
    return this.#set;
  }

  /** Reads the keys, joining a read in flight. Never rejects: the last keys stay. */
  renew(): Promise<void> {
    this.#reading ??= this.#renew().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Renews the keys for a token whose key is unknown; `undefined` within 30 s of the last such renewal. */
  renewForToken(): Promise<void> | undefined {
    if (this.#reading !== undefined) return this.#reading;
    const nowMs = performance.now();
    if (nowMs - this.#askedAtMs < unknownKidMs) return undefined;
    this.#askedAtMs = nowMs;
    return this.renew();
  }

  close(): void {
    this.#closing.abort();
    clearTimeout(this.#timer);
    this.#files?.close();
  }

  async #renew(): Promise<void> {
    clearTimeout(this.#timer);
    const { metrics, journal } = this.#context;
    const { signal } = this.#closing;
    let pauseMs: number | undefined;
    try {
      const { keys } = await readKeys(this.#config, signal);
      if (await this.#take(keys)) {
        this.#context.files?.keep(this.#config, { jwks: JSON.stringify({ keys }) });
        journal.record('issuer read', { keys: keys.length }, 'keys of the issuer of tokens were read');
      }
      if (signal.aborted) return;
      metrics.reloaded('issuer', 'ok');
      if (this.#circuit.isOpen) journal.record('issuer back', {}, 'keys of the issuer of tokens are readable again');
      this.#circuit.endTrial(true, performance.now());
    } catch (error) {
      if (signal.aborted) return;
      metrics.reloaded('issuer', 'failed');
      await this.#takeShared();
      if (!this.#circuit.isOpen) {
        const consequence = this.#set === undefined ? 'no token is accepted' : 'the keys in force stay';
        const message = `keys of the issuer of tokens are unreadable: ${consequence}`;
        journal.record('issuer away', { reason: reasonOf(error) }, message);
      }
      const nowMs = performance.now();
      pauseMs = this.#circuit.endTrial(false, nowMs) ?? this.#circuit.fail('unread', nowMs, nowMs);
    }
    this.#timer = setTimeout(() => void this.renew(), pauseMs ?? this.#renewMs).unref();
  }

  /** Takes over the keys that the other processes had in force at the start of this one, which has read none yet. */
  async #takeShared(): Promise<void> {
    const text = this.#set === undefined ? this.#context.files?.find(this.#config)?.jwks : undefined;
    if (text !== undefined) await this.#take(parseKeySet(text, this.#config.algorithms).keys);
  }

  /** Whether they are others than before. */
  async #take(keys: readonly PublicKey[]): Promise<boolean> {
    const text = JSON.stringify(keys);
    if (text === this.#text) return false;
    const { createLocalJWKSet } = await import('jose/jwks/local');
    const before = this.#set;
    this.#set = { find: createLocalJWKSet({ keys } as unknown as JSONWebKeySet), byKid: textsByKid(keys) };
    this.#text = text;
    this.#onChange(this.#set, before);
    return true;
  }
}

/** Reads the keys of the config's issuer as `check` does: a problem when none is usable, a warning for unusable ones. */
export async function inspectIssuer(
  config: JwtConfig,
): Promise<{ readonly findings: readonly Pick<Problem, 'path' | 'message'>[]; readonly warnings: readonly string[] }> {
  try {
    const { wrong } = await readKeys(config);
    if (wrong === 0) return { findings: [], warnings: [] };
    return { findings: [], warnings: [`access.jwt.jwks: ${wrong} keys of the issuer are unusable, and are left out`] };
  } catch (error) {
    const message = `the keys of the issuer cannot be used: ${reasonOf(error)}`;
    return { findings: [{ path: ['access', 'jwt', 'jwks'], message }], warnings: [] };
  }
}

async function readKeys({ jwks: { url, file }, algorithms }: JwtConfig, closing?: AbortSignal) {
  const signals = [AbortSignal.timeout(readMs), ...(closing === undefined ? [] : [closing])];
  const signal = AbortSignal.any(signals);
  const text =
    url === undefined ? await readFile(file, { encoding: 'utf8', signal }) : await fetchText(new URL(url), signal);
  return parseKeySet(text, algorithms);
}

/** The body of a 200, within bounds of time and length. Redirections are not followed. */
async function fetchText({ origin, pathname, search }: URL, signal: AbortSignal): Promise<string> {
  const client = new Client(origin, { maxResponseSize: mostBytes, connect: { timeout: readMs } });
  try {
    const { statusCode, body } = await client.request({
      method: 'GET',
      path: pathname + search,
      headers: { accept: 'application/jwk-set+json, application/json' },
      signal,
    });
    if (statusCode !== 200) throw new UnreadError(`status ${statusCode}`);
    return await body.text();
  } finally {
    await client.destroy();
  }
}

/** The keys that verify one of the `algorithms`; `wrong`: malformed or too short ones. Throws when no key is left. */
export function parseKeySet(
  text: string,
  algorithms: readonly string[],
): { readonly keys: readonly PublicKey[]; readonly wrong: number } {
  const given = findKeys(text);
  if (!Array.isArray(given)) throw new UnreadError('no key set');
  if (given.length > mostKeys) throw new UnreadError(`more than ${mostKeys} keys`);
  const parsed = given.map((one) => parseKey(one, algorithms));
  const keys = parsed.filter((key) => typeof key === 'object');
  if (keys.length === 0) throw new UnreadError(`no usable key for ${algorithms.join(', ')}`);
  return { keys, wrong: parsed.filter((key) => key === 'wrong').length };
}

function findKeys(text: string): unknown {
  try {
    return (Object(JSON.parse(text)) as { readonly keys?: unknown }).keys;
  } catch {
    return undefined;
  }
}

/** `other`: a key for another purpose or algorithm. Private members stay behind. */
function parseKey(given: unknown, algorithms: readonly string[]): PublicKey | 'wrong' | 'other' {
  const { key_ops: uses, use, ...members } = Object(given) as Readonly<Record<string, unknown>>;
  if (use !== undefined && use !== 'sig') return 'other';
  if (uses !== undefined && !(Array.isArray(uses) && uses.includes('verify'))) return 'other';
  const { kty, crv, alg } = members;
  const fitting = algorithmsOf(kty, crv);
  if (!algorithms.some((one) => fitting.test(one) && (alg === undefined || alg === one))) return 'other';
  const key: Partial<Record<(typeof publicMembers)[number], string>> = {};
  for (const name of publicMembers) {
    const value = members[name];
    if (value === undefined) continue;
    if (typeof value !== 'string') return 'wrong';
    key[name] = value;
  }
  return isStrong(key) ? key : 'wrong';
}

/** Names of the algorithms of a kind of key (RFC 7518 3.1, RFC 8037 3.1, RFC 9864 2). */
function algorithmsOf(kty: unknown, crv: unknown): RegExp {
  if (kty === 'RSA') return /^[RP]S/;
  if (kty === 'OKP' && crv === 'Ed25519') return /^Ed/;
  if (kty !== 'EC') return /^$/;
  return crv === 'P-256' ? /^ES256$/ : crv === 'P-384' ? /^ES384$/ : crv === 'P-521' ? /^ES512$/ : /^$/;
}

/** RFC 7518 3.3: 2,048 bits of RSA or more. */
function isStrong(key: PublicKey): boolean {
  try {
    const { asymmetricKeyDetails = {} } = createPublicKey({ key, format: 'jwk' });
    return key.kty !== 'RSA' || (asymmetricKeyDetails.modulusLength ?? 0) >= 2_048;
  } catch {
    return false;
  }
}

function textsByKid(keys: readonly PublicKey[]): KeySet['byKid'] {
  const texts = new Map<string | undefined, string>();
  for (const key of keys) texts.set(key.kid, (texts.get(key.kid) ?? '') + JSON.stringify(key));
  return texts;
}

/** The reason of a failed read: a code of the system, or words of `UnreadError`. */
function reasonOf(error: unknown): string {
  if (error instanceof UnreadError) return error.message;
  const { name, code } = Object(error) as { readonly name?: unknown; readonly code?: unknown };
  if (name === 'TimeoutError') return 'no answer in time';
  return typeof code === 'string' ? code : 'no answer';
}
