/** Links to a Redis server, without the rest of a gateway. */
import type { TestContext } from 'node:test';
import type { RedisTargetConfig } from '../../src/config/config.ts';
import { connectRedis } from '../../src/cache/redis/redis-source.ts';
import { RedisLink, type TroubleChange } from '../../src/cache/redis/redis-link.ts';

/** A link to this server, or to these servers; resolves when it is ready, or has failed. It is closed after the test. */
export async function linkTo(
  t: Pick<TestContext, 'after'>,
  where: { readonly url: string } | RedisTargetConfig,
  { timeoutMs = 1_000, onTrouble = () => {} }: { timeoutMs?: number; onTrouble?: (change: TroubleChange) => void } = {},
): Promise<RedisLink> {
  const target: RedisTargetConfig = 'kind' in where ? where : { kind: 'single', url: where.url };
  const connect = (onError: (error: Error) => void) => connectRedis(target, onError);
  const link = new RedisLink(connect, { timeoutMs }, 'lg:trial', onTrouble);
  t.after(() => link.close());
  await link.started;
  return link;
}
