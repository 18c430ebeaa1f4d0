/** Builds the proxy: transports, routes and the admin functions. */
import type { Access } from '../access/index.ts';
import type { Cache } from '../cache/index.ts';
import type { Config } from '../config/index.ts';
import type { ShadowProof } from '../encode/index.ts';
import {
  countedOutcome,
  createAccessLogMetrics,
  createBodyMetrics,
  createFastPathMetrics,
  createHttpMetrics,
  createTracer,
  findSdk,
  type Sdk,
} from '../metrics/index.ts';
import {
  createEncodeMetrics,
  createService,
  Encoder,
  ModuleSource,
  nodeReasons,
  PassThrough,
  Router,
  ShadowChecks,
  type Submissions,
} from '../proxy/routes/index.ts';
import {
  AnswerHeads,
  Bodies,
  type ConnectionTimes,
  Cors,
  createProxyServer,
  FastPath,
  RequestSpans,
  type RequestSummary,
  type Overload,
  type ServerParts,
  TargetCache,
  type TlsListener,
  TurnShares,
  type UnsentAnswers,
} from '../proxy/http/index.ts';
import { Admin, type Distances, Explainer } from '../proxy/operations/index.ts';
import { createReads } from '../proxy/reads/index.ts';
import { AccessLog } from './log/access-log.ts';
import type { FleetParts } from './fleet.ts';
import type { LogControl } from './log/log.ts';
import type { ServingContext } from './settings.ts';

interface ProxyContext extends ServingContext {
  /** Absent: the endpoint is open. */
  readonly access: Access | undefined;
  readonly parts: FleetParts;
  readonly cache: Cache;
  /** Counts requests by their distance from the head. */
  readonly distances: Distances;
  readonly logging: LogControl;
  readonly proof: ShadowProof;
  readonly now: () => number;
  readonly submissions: Submissions;
  readonly draining: { readonly isOn: boolean };
  readonly times: ConnectionTimes;
  readonly overload: Overload;
  readonly unsent: UnsentAnswers;
  /** Absent: plain HTTP. */
  readonly tls: TlsListener | undefined;
  /** Absent: the config asks for no traces, or the registered SDK records them. */
  readonly sdk: Sdk | undefined;
}

/** Builds the server, which does not listen yet, and its routes. */
export function buildProxy(config: Config, context: ProxyContext) {
  const { cache, log, journal, registry, distances, proof, submissions, peers, settings, access } = context;
  const { fleet, sender, latest } = context.parts;
  const { basePath } = config.listen;
  const reads = createReads({
    fleet,
    sender,
    latest,
    cache,
    registry,
    settings,
    gasPriceTtlMs: config.cache.gasPriceTtlMs,
    drop: async (key) => {
      // Before and after: in between the others may read it from Redis again.
      peers?.publish({ kind: 'dropped', key });
      const { isComplete } = await cache.purge({ kind: 'read', key });
      peers?.publish({ kind: 'dropped', key });
      if (!isComplete)
        journal.record('drop incomplete', {}, 'nodes disagree on a read, and not every cache dropped it');
    },
    onDisagreement: (report) =>
      journal.record('disagreement', report, 'two upstreams answer a pinned read differently: it is dropped'),
  });
  const { reader, freshness, shares, audits } = reads;
  const cors = new Cors(fleet.dialect);
  const keyHeader = access && (() => access.header);
  const heads = new AnswerHeads({ fleet, keyHeader, draining: context.draining });
  const router = new Router({ basePath, submissions });
  const passThrough = new PassThrough({ router, fleet, sender, submissions, latest, freshness });
  const accessLog = new AccessLog({
    log,
    metrics: createAccessLogMetrics(registry),
    rules: () => context.logging.inForce.access,
  });
  const sdk = context.sdk ?? findSdk();
  const tracer = sdk && createTracer(sdk);
  const observer = {
    spans: tracer && new RequestSpans(tracer, { basePath, scheme: config.listen.tls === undefined ? 'http' : 'https' }),
    metrics: createHttpMetrics(registry),
    limits: settings.sender,
    onEnd: (summary: RequestSummary, seconds: number) => {
      distances.count(countedOutcome(summary), summary.version);
      accessLog.note(summary, seconds);
    },
  };
  const encoder = buildEncoder();
  const targets = new TargetCache();
  const bodies = buildBodies();
  const service = createService({
    router,
    targets,
    reader,
    shares,
    passThrough,
    encoder: () => (settings.encode.enabled ? encoder : undefined),
    freshness,
  });
  const serverParts: ServerParts = {
    service,
    targets,
    access,
    bodies,
    fleet,
    reader,
    memory: cache.memory,
    freshness,
    cors,
    heads,
    unsent: context.unsent,
    observer,
    overload: context.overload,
    times: context.times,
    turns: new TurnShares(),
    tls: context.tls,
  };
  const server = createProxyServer(serverParts);
  const fastPath = config.listen.fastPath
    ? new FastPath(server.server, serverParts, createFastPathMetrics(registry))
    : undefined;
  return { server, fastPath, admin: buildAdmin(), audits, targets, flushTraces: async () => tracer?.flush() };

  function buildBodies(): Bodies {
    const bodies: Bodies = new Bodies({ processes: context.processes, onEnded: () => bodyMetrics.ended.inc() });
    const bodyMetrics = createBodyMetrics(registry, () => bodies.heldBytes);
    return bodies;
  }

  function buildAdmin(): Admin {
    const { tiers, metrics, purge, purgeHere } = cache;
    const explainer = new Explainer({
      fleet,
      latest,
      reader,
      freshness,
      tiers,
      router,
      limits: settings.latest,
      sending: settings.sender,
    });
    return new Admin({
      router,
      reader,
      chainId: () => fleet.chainId,
      explainer,
      purge,
      purgeHere,
      fleet,
      journal,
      onPurge: (scope) => metrics.purged(scope),
      usage: access?.usage,
    });
  }

  function buildEncoder(): Encoder {
    const metrics = createEncodeMetrics(registry, nodeReasons, () => proof.distrusted.size);
    const modules = new ModuleSource(reader, context.now);
    const { signingDomain } = config.encode;
    return new Encoder({
      fleet,
      passThrough,
      proof,
      modules,
      checks: new ShadowChecks({
        fleet,
        sender,
        modules,
        signingDomain,
        proof,
        metrics,
        onMismatch: (mismatch) => {
          peers?.publish({ kind: 'distrusted', functionId: mismatch.functionId });
          journal.record(
            'encode mismatch',
            mismatch,
            'a node encodes this function differently: nodes encode it from now on',
          );
        },
        onNodeRefusal: (refusal) =>
          journal.record('encode unread', refusal, 'a node cannot read a request that was encoded here'),
      }),
      metrics,
      signingDomain,
    });
  }
}
