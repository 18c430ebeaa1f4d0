/** What a key looks like, and the only form in which it is kept: its SHA-256. */
import { hash, randomBytes } from 'node:crypto';

/** Says what it is to whoever finds one, and to the scanners that look for leaked keys. */
const prefix = 'lgk_';
const randomByteCount = 32;

/** Longer texts are no keys, and not hashed to their end: what a guess costs is bounded. */
export const longestKey = 256;

/** A new key: `lgk_` and 256 random bits. */
export function createKey(): string {
  return prefix + randomBytes(randomByteCount).toString('base64url');
}

/** Whether a text has something in it that is a key, or meant to be one. */
export function holdsKey(text: string): boolean {
  return text.includes(prefix) && keyForm.test(text);
}

const keyForm = /lgk_[\w-]{16}/;

/** The hash of a key, 64 hex digits. Keys are random, so that no salt and no slow hash is needed. */
export function hashKey(key: string): string {
  return hash('sha256', key, 'hex');
}
