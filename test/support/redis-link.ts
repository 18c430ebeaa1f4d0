/** Links to a Redis server, without the rest of a gateway. */
import type { TestContext } from 'node:test';
import { connectRedis } from '../../src/cache/redis/redis-source.ts';
import { type LinkOptions, RedisLink } from '../../src/cache/redis/redis-link.ts';

/** A link to this server; resolves when it is ready, or has failed. It is closed after the test. */
export async function linkTo(
  t: Pick<TestContext, 'after'>,
  { url }: { readonly url: string },
  changes: Partial<LinkOptions> = {},
): Promise<RedisLink> {
  const link = new RedisLink((onError) => connectRedis({ kind: 'single', url }, onError), {
    timeoutMs: 1_000,
    trialKey: 'lg:trial',
    onFailure: () => {},
    onTrouble: () => {},
    ...changes,
  });
  t.after(() => link.close());
  await link.started;
  return link;
}
