/**
 * Parts that only some configs ask for, with all that they are made of: loaded at the start by these, and by no others.
 * A config that asks for one more of them is taken over by a restart.
 */
import type { Config } from '../config/config.ts';

export type Optional = Awaited<ReturnType<typeof loadOptional>>;

/** How to build each part; what is absent was not asked for. */
export async function loadOptional({ access, cache: { redis }, listen: { tls } }: Config) {
  return {
    access: access && of(access, (await import('./access.ts')).buildAccess),
    sharedCache: redis && of(redis, (await import('./shared-cache.ts')).buildSharedCache),
    encryption: tls && of(tls, (await import('./encryption.ts')).buildEncryption),
  };
}

function of<C, Context, Part>(config: C, build: (config: C, context: Context) => Part): (context: Context) => Part {
  return (context) => build(config, context);
}
