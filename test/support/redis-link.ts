/** Links to a Redis server, without the rest of a gateway. */
import type { TestContext } from 'node:test';
import { connectRedis } from '../../src/cache/redis/redis-source.ts';
import { RedisLink, type TroubleChange } from '../../src/cache/redis/redis-link.ts';

/** A link to this server; resolves when it is ready, or has failed. It is closed after the test. */
export async function linkTo(
  t: Pick<TestContext, 'after'>,
  { url }: { readonly url: string },
  { timeoutMs = 1_000, onTrouble = () => {} }: { timeoutMs?: number; onTrouble?: (change: TroubleChange) => void } = {},
): Promise<RedisLink> {
  const connect = (onError: (error: Error) => void) => connectRedis({ kind: 'single', url }, onError);
  const link = new RedisLink(connect, { timeoutMs }, 'lg:trial', onTrouble);
  t.after(() => link.close());
  await link.started;
  return link;
}
