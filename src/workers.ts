/**
 * The gateway in several processes: workers serve clients on one port, this one accepts for them, watches over them,
 * and answers operators. What a worker is told comes from here: the config is read once.
 */
import type { Config } from './config/config.ts';
import type { GatewayOptions, RunningGateway } from './gateway.ts';
import { createLog, LogControl } from './gateway/log.ts';
import { LogAdmin } from './gateway/log-admin.ts';
import { packageVersion } from './gateway/package-version.ts';
import { Reloads } from './gateway/reloads.ts';
import { createBuildMetrics } from './metrics/reload-metrics.ts';
import { expose } from './metrics/exposition.ts';
import { createLogMetrics } from './metrics/log-metrics.ts';
import { createReloadMetrics } from './metrics/reload-metrics.ts';
import { portOf, reachable, schemeOf } from './gateway/address.ts';
import { drainMs } from './gateway/serving.ts';
import { createOperationsServer } from './proxy/health.ts';
import { Journal, mergeEvents } from './status/events.ts';
import type { StatusFacts } from './status/facts.ts';
import { mergeTold } from './status/merge.ts';
import { factsOf } from './status/present.ts';
import { adminOf } from './workers/admin.ts';
import { Agreement } from './workers/agreement.ts';
import { Crew } from './workers/crew.ts';
import type { Member, Services } from './workers/forked.ts';
import { WorkerMetrics } from './workers/metrics.ts';
import { packConfig } from './workers/protocol.ts';
import { mergeReadiness } from './workers/readiness.ts';
import { LimitDesk } from './workers/limit-desk.ts';
import { Relay } from './workers/relay.ts';
import { Watch } from './workers/watch.ts';

/** Operators' tools wait for a second or more; a worker that does not answer them in this time is left out. */
const answerMs = 800;
/** A worker that does not say in this time that a config is in force is said not to have taken it. */
const applyMs = 5_000;
/** One that starts takes it when it serves. */
const startMs = 30_000;
/** Beyond its own bounds a worker has this long to end its drain. */
export const slackMs = 5_000;

/** Starts listening, in `count` processes. Nodes that are down do not stop it; a port that is taken does. */
export async function startWorkers(
  config: Config,
  count: number,
  options: GatewayOptions = {},
): Promise<RunningGateway> {
  const { drainDelayMs = 0 } = options;
  const { log, lines } =
    options.log === undefined ? createLog(config.log.level) : { log: options.log, lines: options.logLines };
  const journal = new Journal(log);
  const metrics = new WorkerMetrics(() => crew.serving.length);
  createBuildMetrics(metrics.registry, { version: packageVersion(), node: process.version, dialect: config.dialect });
  createLogMetrics(metrics.registry, lines);
  const relay = new Relay(() => crew, config.upstream.probeIntervalMs);
  /** What workers are told that start now. */
  let inForce = config;
  let keys: string | undefined;
  /** All workers that are wanted have been told to serve: those that come later are back. */
  let isUp = false;
  const agreement = new Agreement();
  const desk = new LimitDesk();
  const agreementFor = ({ id }: Member): Omit<Services, keyof ReturnType<Relay['servicesFor']>> => ({
    raise: (raised) => agreement.raise(raised),
    startOver: (told) => {
      relay.startOver();
      agreement.startOver(id, told);
    },
    takeTurn: () => agreement.takeTurn(id),
    endTurn: () => agreement.endTurn(id),
    keys: (text) => {
      keys = text;
    },
    ...desk.servicesFor(id),
  });
  const crew: Crew = new Crew(config.listen.port, {
    setup: (port) => ({
      config: packConfig({ ...inForce, log: logAdmin.inForce, listen: { ...inForce.listen, port } }),
      drainDelayMs,
      processes: count,
      distrusted: relay.distrusted,
      known: relay.known(),
      keys,
    }),
    servicesFor: (member) => ({ ...relay.servicesFor(member), ...agreementFor(member) }),
    onServing: ({ id }) => {
      relay.assignDuty();
      if (isUp) journal.note('worker back', { worker: id });
    },
    onLost: (id, how, againMs) => {
      metrics.restarts.inc();
      journal.tell('worker lost', { worker: id, how, againMs }, 'a worker ended and is started again');
    },
    onSpareLost: (how, againMs) =>
      journal.tell('spare lost', { how, againMs }, 'the spare process ended and is started again'),
    onJoining: ({ id, channel }) => {
      agreement.join(id, channel);
      desk.join(id);
    },
    onGone: ({ id }) => {
      agreement.leave(id);
      desk.leave(id);
      metrics.forget(id);
      relay.assignDuty();
    },
  });
  const watch = new Watch({
    members: () => crew.loaded,
    onHung: (member, silentMs) => {
      if (crew.members.includes(member)) metrics.hangs.inc();
      crew.end(member, `no sign of life for ${silentMs / 1_000} s`);
    },
  });
  /** Why the worker cannot; one that does not say so in time is not waited for, and told of. */
  const applyAt = async ({ id, channel, isServing }: Member, next: Config): Promise<string | undefined> => {
    const applied = channel.call('apply', packConfig(next), isServing ? applyMs : startMs + applyMs);
    const reported = applied.catch((error: unknown) => {
      log.error({ worker: id, cause: String(error) }, 'a worker did not take over the config');
      return undefined;
    });
    return isServing ? reported : undefined;
  };
  const control = new LogControl(log, config.log);
  const logAdmin: LogAdmin = new LogAdmin(config.log, {
    log,
    apply: (inForce) => {
      control.set(inForce);
      for (const { channel } of crew.members) channel.tell('log', inForce);
    },
  });
  const reloads = new Reloads(config, {
    journal,
    onTaken: (taken) => logAdmin.reload(taken.log),
    metrics: createReloadMetrics(metrics.registry),
    apply: async (next) => {
      inForce = next;
      const faults = await Promise.all(crew.members.map((member) => applyAt(member, next)));
      const fault = faults.find((reason) => reason !== undefined);
      if (fault !== undefined) throw new Error(fault);
    },
  });
  let isDraining = false;
  const startedAtMs = Date.now();
  const status = async (): Promise<StatusFacts> => {
    const told = [...(await crew.askAll(({ channel }) => channel.call('status', undefined, answerMs))).values()];
    const merged = mergeTold(told);
    return factsOf(merged && { ...merged, startedAtMs, events: mergeEvents([merged.events, journal.events]) }, {
      version: packageVersion(),
      nowMs: Date.now(),
      isDraining,
      reload: reloads.status,
      workers: { wanted: count, answering: told.length },
    });
  };
  const readiness = async () => {
    const told = await crew.askAll(({ channel }) => channel.call('readiness', undefined, answerMs));
    return mergeReadiness([...told.values()], count);
  };
  const operations = createOperationsServer({
    isDraining: () => isDraining,
    readiness,
    metrics: async (accept) => {
      const told = await crew.askAll(({ channel }) => channel.call('metrics', undefined, answerMs));
      return expose(await metrics.families(told), accept);
    },
    admin: adminOf(() => crew),
    log: logAdmin,
    rules: () => reloads.config.operations,
    reload: () => reloads.status,
    status,
  });
  try {
    const port = await crew.start(count);
    isUp = true;
    await operations.listen({ host: config.operations.host, port: config.operations.port });
    const { upstreams } = await readiness();
    const operationsPort = portOf(operations);
    return {
      url: `${schemeOf(config)}://${reachable(config.listen.host)}:${port}${config.listen.basePath}`,
      operationsUrl: `http://${reachable(config.operations.host)}:${operationsPort}`,
      port,
      operationsPort,
      fleet: () => upstreams,
      reloads,
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
