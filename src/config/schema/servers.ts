/** Servers that the gateway connects to: Redis, and TLS toward it and nodes. */
import { z } from 'zod';
import { duration, filled, filledList, hour, live, pattern, redisUrl } from './schema-parts.ts';

const file = (text: string) => filled('expected the name of a file').optional().describe(text);

/** Files for TLS toward a server of the operator's own. `server`: in the description. */
export function clientTls(server: string) {
  return z
    .strictObject({
      ca: file('PEM file of the authorities that are trusted, in place of the public ones.'),
      cert: file('PEM file with the certificate that the gateway shows, then its intermediate certificates.'),
      key: file('PEM file with its private key, without a passphrase.'),
      serverName: pattern(/^[\w.-]+$/, 'expected a host name')
        .optional()
        .describe('Name that is asked for (SNI) and checked. Absent: that of the address.'),
    })
    .describe(
      `TLS toward ${server}: files relative to the config file, reloaded when they change. Absent: public authorities.`,
    );
}

/** Addresses of Redis in one of its three topologies, and TLS toward it. */
export const redisServers = {
  url: redisUrl().optional().describe('One server: redis://HOST:PORT/DB, or rediss:// for TLS.'),
  cluster: filledList(redisUrl(), 'expected a list of redis:// addresses', 'needs at least one node')
    .optional()
    .describe('Cluster: addresses of some of its servers.'),
  sentinel: z
    .strictObject({
      name: filled('expected a name').describe('Name of the primary at the sentinels.'),
      nodes: filledList(redisUrl(), 'expected a list of redis:// addresses', 'needs at least one sentinel').describe(
        'Addresses of the sentinels.',
      ),
    })
    .optional()
    .describe('Servers behind sentinels.'),
  tls: live(clientTls('Redis').optional()),
};

/** First part of every name in Redis. */
export const keyPrefix = pattern(/^[\w.:-]{1,64}$/, 'expected 1 to 64 letters, digits or any of "._:-"')
  .default('lg')
  .describe('First part of every key.');

/** Bound of a command. */
export const redisTimeout = live(
  duration('50ms', 1, hour).describe('Longest delay that Redis may add to a request; a slower look-up counts as none.'),
);
