/** A worker: serves clients with the setup of the primary, and handles its messages. */
import cluster from 'node:cluster';
import { GatewayLog, type PeerWorkers, type Serving, startServing } from '../gateway/index.ts';
import { SharedFiles } from '../metrics/index.ts';
import { processCalls } from '../proxy/operations/index.ts';
import { Channel, type PrimaryHandlers, type Setup, type StartFailure, type WorkerHandlers } from './channel.ts';
import { PeerLink } from './peers.ts';

/** Longest wait of a request for the primary to count it. */
const countedMs = 100;
/** Longest wait of a report of usage, or of a look at it. */
const usageMs = 2_000;

/** Waits for the setup without bound. Resolves when the worker serves, or has reported why it cannot. */
export async function serveAsWorker(): Promise<void> {
  const set = Promise.withResolvers<Setup>();
  const started = Promise.withResolvers<Serving>();
  // Queries before the start fail with it; the primary reads the reason from `failed`.
  started.promise.catch(() => undefined);
  const whenServing = (use: (serving: Serving) => void | Promise<void>): Promise<void> =>
    started.promise.then(use, () => undefined);
  const own: { link?: PeerLink; log?: GatewayLog } = {};
  const handlers: WorkerHandlers = {
    serve: (setup) => set.resolve(setup),
    alive: () => undefined,
    // In order, and events from before the start ahead of the first request.
    published: (published) =>
      whenServing((serving) => own.link?.receive(published, (event) => serving.applyPeerEvent(event))),
    ...processCalls(async (name, argument) => (await started.promise).operations[name](argument)),
    apply: async (config) => {
      const serving = await started.promise;
      return serving.apply(config).then(() => undefined, String);
    },
    log: (config) => void whenServing(() => own.log?.set(config)),
    follow: (isAppointed) => void whenServing((serving) => serving.appoint(isAppointed)),
    drain: async () => {
      await (await started.promise).close();
      await own.log?.flush();
    },
  };
  const primary = new Channel<PrimaryHandlers>(sendToPrimary, handlers);
  process.on('message', (message) => primary.take(message));
  primary.notify('loaded', undefined);
  const { config, drainDelayMs, processes, run, distrusted, drained, ledger, published, files } = await set.promise;
  process.title = 'ledgergate worker';
  const log = GatewayLog.onStandardError(config.log, { worker: cluster.worker?.id });
  own.log = log;
  const link = new PeerLink(primary, ledger);
  own.link = link;
  for (const event of published) void handlers.published(event);
  const peers: PeerWorkers = {
    distrusted,
    publish: (event) => link.publish(event),
    files: new SharedFiles(files, (section, texts) => primary.notify('files', { section, texts })),
    flights: {
      enter: (name, withinMs) =>
        primary.call('enterFlight', name, withinMs).catch(() => {
          // The answer in flight may be `lead`: this worker does not.
          primary.notify('leaveFlight', name);
          return 'look' as const;
        }),
      leave: (name) => primary.notify('leaveFlight', name),
    },
    limitService: {
      take: (request) => primary.call('take', request, countedMs),
      settle: (ended) => primary.notify('settle', ended),
      countAlone: (counted) => primary.notify('countAlone', counted),
      standings: (charge) => primary.call('standings', charge, countedMs),
    },
    usageStore: {
      source: 'memory',
      add: (report) => primary.call('addUsage', report, usageMs).catch(() => false),
      read: (query) => primary.call('readUsage', query, usageMs).catch(() => undefined),
      readDays: (holder, month) => primary.call('readUsageDays', { holder, month }, usageMs).catch(() => undefined),
      close: () => undefined,
    },
  };
  try {
    const serving = await startServing(config, { log, drainDelayMs, processes, run, peers, drained });
    log.register(serving.registry);
    started.resolve(serving);
    primary.notify('serving', { port: serving.port });
  } catch (error) {
    started.reject(error);
    primary.notify('failed', failureOf(error));
  }
}

/** Ignores send errors: a worker without a primary ends. */
function sendToPrimary(message: object): void {
  process.send?.(message, undefined, {}, () => undefined);
}

function failureOf(error: unknown): StartFailure {
  const { code, syscall, address, port } = error as NodeJS.ErrnoException & Pick<StartFailure, 'address' | 'port'>;
  return { message: error instanceof Error ? error.message : String(error), code, syscall, address, port };
}
