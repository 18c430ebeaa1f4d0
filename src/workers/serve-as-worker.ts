/** What a worker does: serves clients as it is told to, and answers its primary. */
import cluster from 'node:cluster';
import { createProcessLog } from '../gateway/log.ts';
import { startServing, type Serving } from '../gateway/serving.ts';
import type { Heard, Siblings } from '../gateway/siblings.ts';
import { familiesOf } from '../metrics/family.ts';
import { createLogMetrics } from '../metrics/log-metrics.ts';
import { Agreed } from './agreed.ts';
import { Channel } from './channel.ts';
import { unpackConfig, type Failure, type PrimaryHandlers, type Setup, type WorkerHandlers } from './protocol.ts';

/** Submissions wait at most so long for the other workers to know of them. */
const takenMs = 250;
/** Requests wait at most so long for the primary to count them. */
const countedMs = 100;

/** Waits to be told, as long as it takes. Resolves when the worker serves, or has said why it cannot. */
export async function serveAsWorker(): Promise<void> {
  const started = Promise.withResolvers<Serving>();
  // Nobody may ask before it serves.
  started.promise.catch(() => undefined);
  // Who does not come to serve has said why.
  const whenServing = (use: (serving: Serving) => void): Promise<void> => started.promise.then(use, () => undefined);
  const hear = (take: (heard: Heard) => void): Promise<void> => whenServing(({ heard }) => take(heard));
  const told = Promise.withResolvers<Setup>();
  let isOnDuty = false;
  const own: { flush?: () => Promise<void> } = {};
  const handlers: Omit<WorkerHandlers, keyof Agreed['handlers']> = {
    serve: (setup) => told.resolve(setup),
    alive: () => undefined,
    duty: (isNow) => {
      isOnDuty = isNow;
    },
    found: ({ upstream, finding }) => void hear((heard) => heard.found(upstream, finding)),
    taken: ({ hash, upstream }) => hear((heard) => heard.taken(hash, upstream)),
    distrusted: (functionId) => void hear((heard) => heard.distrusted(functionId)),
    dropped: (key) => void hear((heard) => heard.dropped(key)),
    readiness: async () => (await started.promise).readiness(),
    status: async () => (await started.promise).status(),
    metrics: async () => familiesOf((await started.promise).registry),
    purge: async ({ request, from }) => (await started.promise).admin.purge(request, from),
    purgeHere: async (request) => (await started.promise).admin.purgeHere(request),
    explain: async (request) => (await started.promise).admin.explain(request),
    apply: async (packed) => {
      const serving = await started.promise;
      return serving.apply(unpackConfig(packed)).then(
        () => undefined,
        (error: unknown) => String(error),
      );
    },
    usage: async (request) => (await started.promise).admin.usage(request),
    log: (config) => void whenServing((serving) => serving.setLog(config)),
    drain: async () => {
      await (await started.promise).close();
      await own.flush?.();
    },
  };
  const all: object = {};
  const primary = new Channel<PrimaryHandlers>(sendToPrimary, all);
  const agreed = new Agreed(primary, cluster.worker?.id ?? 0);
  Object.assign(all, handlers, agreed.handlers);
  process.on('message', (message) => primary.take(message));
  process.title = 'ledgergate spare';
  primary.tell('loaded', undefined);
  const { config: packed, drainDelayMs, processes, distrusted, known, keys } = await told.promise;
  process.title = 'ledgergate worker';
  const config = unpackConfig(packed);
  const { log, lines, flush } = createProcessLog(config.log.level, { worker: cluster.worker?.id });
  own.flush = flush;
  const siblings: Siblings = {
    shown: agreed,
    gate: agreed,
    lastKeys: keys,
    distrusted,
    tellKeys: (text) => primary.tell('keys', text),
    attach: (fleet) => agreed.attach(fleet),
    tellKnown: (hear) => {
      for (const { upstream, finding } of known) hear(upstream, finding);
      agreed.tellKnown();
    },
    startOver: () => agreed.startOver(),
    isOnDuty: () => isOnDuty,
    tellFound: (upstream, finding) => primary.tell('found', { upstream, finding }),
    // A sibling that is stuck must not hold up submissions: at worst it asks another node first.
    tellTaken: (hash, upstream) => primary.call('taken', { hash, upstream }, takenMs).catch(() => undefined),
    tellDistrusted: (functionId) => primary.tell('distrusted', functionId),
    tellDropped: (key) => primary.tell('dropped', key),
    desk: {
      take: (request) => primary.call('take', request, countedMs),
      settle: (ended) => primary.tell('settle', ended),
    },
  };
  try {
    const serving = await startServing(config, { log, drainDelayMs, processes, siblings });
    createLogMetrics(serving.registry, lines);
    started.resolve(serving);
    primary.tell('serving', { port: serving.port });
  } catch (error) {
    started.reject(error);
    primary.tell('failed', failureOf(error));
  }
}

/** What cannot be sent need not be: without a primary the process ends. */
function sendToPrimary(message: object): void {
  process.send?.(message, undefined, {}, () => undefined);
}

function failureOf(error: unknown): Failure {
  const { code, syscall, address, port } = error as NodeJS.ErrnoException & Pick<Failure, 'address' | 'port'>;
  return { message: error instanceof Error ? error.message : String(error), code, syscall, address, port };
}
