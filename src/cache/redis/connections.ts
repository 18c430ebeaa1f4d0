/** Connections to the Redis of the config for parts that store more than answers in it. */
import type { RedisConfig } from '../../config/index.ts';
import { connectRedis } from './redis-client.ts';
import { failureOf, reasonOf } from './redis-failure.ts';
import { type LinkOptions, RedisLink } from './redis-link.ts';

/** Opens connections of their own at each call. `bounds`: read at each command, since a reload may change them. */
export function redisConnections({ target, keyPrefix }: RedisConfig, bounds: Pick<LinkOptions, 'timeoutMs'>) {
  return {
    keyPrefix,
    link: (onTrouble: LinkOptions['onTrouble']) =>
      new RedisLink((onError) => connectRedis(target, onError), {
        get timeoutMs() {
          return bounds.timeoutMs;
        },
        trialKey: `${keyPrefix}:trial`,
        onFailure: () => undefined,
        onTrouble,
      }),
    connect: (onError: (error: Error) => void) => connectRedis(target, onError),
    /** The error of a read in words of a closed set. */
    reasonOf: (error: Error) => reasonOf(failureOf(error, false), error, bounds),
  };
}
