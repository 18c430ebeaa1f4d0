/** The effective config without secrets, in the form of a config file. */
import { escapeInterpolation } from './source/interpolate.ts';
import type { KeyPath } from './source/key-path.ts';
import type { Positions } from './source/positions.ts';
import type { FileConfig } from './schema/schema.ts';

/** A `FileConfig` without secrets, itself a valid config file. */
export type RedactedConfig = FileConfig;

/**
 * Replaces interpolated values by their `${NAME}`, since any variable may hold a secret, and passwords and tokens of the
 * file by stars.
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

function isSecret(path: KeyPath): boolean {
  return path.join('.') === 'operations.token' || path.at(-2) === 'headers';
}

/** `redis://user:password@host` as `redis://user:***@host`; a lone word before the `@` may be a password. */
function maskCredentials(text: string): string {
  return text
    .replace(/^([a-z]+:\/\/)([^:/?#]*):.*@/, '$1$2:***@')
    .replace(/^([a-z]+:\/\/)[^:]+@/, '$1***@')
    .replaceAll(/([?&](?:password|auth|token)=)[^&]*/gi, '$1***');
}
