/** The effective config as it may be shown to people: in the file's own form, without secrets. */
import { escapeInterpolation } from './source/interpolate.ts';
import type { KeyPath } from './source/key-path.ts';
import type { Positions } from './source/positions.ts';
import type { FileConfig } from './schema/schema.ts';

/** A `FileConfig` in which no text is secret any more. Reads as a config file of its own. */
export type RedactedConfig = FileConfig;

/**
 * What came from `${NAME}` is shown as `${NAME}`: any variable may hold a secret, and its name says more than stars.
 * Passwords and tokens written into a file are shown as stars.
 */
export function redactConfig(file: FileConfig, positions: Positions): RedactedConfig {
  const mask = (value: unknown, path: KeyPath): unknown => {
    const template = positions.findTemplate(path);
    if (template !== undefined) return template;
    if (typeof value === 'string' && isSecret(path)) return '*'.repeat(16);
    if (typeof value === 'string') return escapeInterpolation(maskCredentials(value));
    if (Array.isArray(value)) return value.map((item, index) => mask(item, [...path, index]));
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, mask(part, [...path, key])]));
  };
  return mask(file, []) as RedactedConfig;
}

/** `operations.token`, and the credentials of nodes. */
function isSecret(path: KeyPath): boolean {
  const [section, , key] = path;
  return path.join('.') === 'operations.token' || (section === 'upstreams' && key === 'headers');
}

/** `redis://user:password@host` as `redis://user:***@host`; a lone word before the `@` may be a password, too. */
function maskCredentials(text: string): string {
  return text
    .replace(/^([a-z]+:\/\/)([^:/?#]*):.*@/, '$1$2:***@')
    .replace(/^([a-z]+:\/\/)[^:]+@/, '$1***@')
    .replaceAll(/([?&](?:password|auth|token)=)[^&]*/gi, '$1***');
}
