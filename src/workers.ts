/**
 * The gateway in several processes: workers serve clients on one port, this one accepts for them, watches over them,
 * and answers operators. What a worker is told comes from here: the config is read once.
 */
import { pino } from 'pino';
import type { Config } from './config/config.ts';
import type { GatewayOptions, RunningGateway } from './gateway.ts';
import { drainMs, portOf, reachable, schemeOf } from './gateway/serving.ts';
import { createOperationsServer } from './proxy/health.ts';
import { adminOf } from './workers/admin.ts';
import { Agreement } from './workers/agreement.ts';
import { Crew, type Member, type Services } from './workers/crew.ts';
import { WorkerMetrics } from './workers/metrics.ts';
import { packConfig } from './workers/protocol.ts';
import { mergeReadiness } from './workers/readiness.ts';
import { Relay } from './workers/relay.ts';
import { Watch } from './workers/watch.ts';

/** Operators' tools wait for a second or more; a worker that does not answer them in this time is left out. */
const answerMs = 800;
/** Beyond its own bounds a worker has this long to end its drain. */
const slackMs = 5_000;

/** Starts listening, in `count` processes. Nodes that are down do not stop it; a port that is taken does. */
export async function startWorkers(
  config: Config,
  count: number,
  options: GatewayOptions = {},
): Promise<RunningGateway> {
  const { log = pino({ level: config.log.level }), drainDelayMs = 0 } = options;
  const metrics = new WorkerMetrics(() => crew.serving.length);
  const relay = new Relay(() => crew);
  const agreement = new Agreement();
  const agreementFor = ({ id }: Member): Omit<Services, keyof ReturnType<Relay['servicesFor']>> => ({
    raise: (raised) => agreement.raise(raised),
    startOver: (told) => agreement.startOver(id, told),
    takeTurn: () => agreement.takeTurn(id),
    endTurn: () => agreement.endTurn(id),
  });
  const crew: Crew = new Crew(config.listen.port, {
    setup: (port) => ({
      config: packConfig({ ...config, listen: { ...config.listen, port } }),
      drainDelayMs,
      processes: count,
      distrusted: relay.distrusted,
    }),
    servicesFor: (member) => ({ ...relay.servicesFor(member), ...agreementFor(member) }),
    onServing: () => relay.assignDuty(),
    onLost: (id, how, againMs) => {
      metrics.restarts.inc();
      log.error({ worker: id, how, againMs }, 'a worker ended and is started again');
    },
    onJoining: ({ id, channel }) => agreement.join(id, channel),
    onGone: ({ id }) => {
      agreement.leave(id);
      metrics.forget(id);
      relay.assignDuty();
    },
  });
  const watch = new Watch({
    members: () => crew.serving,
    onHung: (member, silentMs) => {
      metrics.hangs.inc();
      crew.end(member, `no sign of life for ${silentMs / 1_000} s`);
    },
  });
  let isDraining = false;
  const readiness = async () => {
    const told = await crew.askAll(({ channel }) => channel.call('readiness', undefined, answerMs));
    return mergeReadiness([...told.values()], count);
  };
  const operations = createOperationsServer({
    isDraining: () => isDraining,
    readiness,
    metrics: async () => metrics.text(await crew.askAll(({ channel }) => channel.call('metrics', undefined, answerMs))),
    metricsContentType: metrics.contentType,
    admin: adminOf(() => crew),
    access: { token: config.operations.token, host: config.operations.host },
    isReadyInOutage: config.operations.readyInOutage,
  });
  try {
    const port = await crew.start(count);
    await operations.listen({ host: config.operations.host, port: config.operations.port });
    const { upstreams } = await readiness();
    const operationsPort = portOf(operations);
    return {
      url: `${schemeOf(config)}://${reachable(config.listen.host)}:${port}${config.listen.basePath}`,
      operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
      port,
      operationsPort,
      fleet: () => upstreams,
      async close() {
        isDraining = true;
        watch.close();
        await crew.close(drainDelayMs + drainMs + slackMs);
        agreement.close();
        await operations.close();
      },
    };
  } catch (error) {
    crew.kill();
    watch.close();
    agreement.close();
    throw error;
  }
}
