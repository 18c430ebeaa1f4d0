/** Whether the certificate and the ciphers that the config names can be served with. */
import type { LoadedConfig } from '../../config/source/load.ts';
import type { Problem } from '../../config/source/problem.ts';
import { defaultCiphers, weaknessesOf } from '../../config/tls-ciphers.ts';
import { readTlsPair } from '../../config/tls-pair.ts';

/** Problems and warnings about the certificate and its key. */
export interface TlsInspection {
  readonly problems: readonly Problem[];
  readonly warnings: readonly string[];
}

/** The inspection of a config without TLS. */
export const noTls: TlsInspection = { problems: [], warnings: [] };

/** Reads certificate and key, and places their problems in the config file. */
export function inspectTls({ config, whereIs }: Pick<LoadedConfig, 'config' | 'whereIs'>): TlsInspection {
  if (config.listen.tls === undefined) return noTls;
  const { ciphers = defaultCiphers } = config.listen.tls;
  const { problems, warnings } = readTlsPair(config.listen.tls, Date.now());
  const placed = problems.map(({ at, message }): Problem => {
    const path = ['listen', 'tls', at];
    return { path, message, where: whereIs(path) };
  });
  return { problems: placed, warnings: [...warnings, ...weaknessesOf(ciphers)] };
}
