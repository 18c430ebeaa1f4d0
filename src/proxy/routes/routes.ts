/** Builds the routes of the client port. */
import type { Registry } from 'prom-client';
import { type DistrustedFunctions, ShadowProof } from '../../encode/index.ts';
import type { Journal } from '../../metrics/index.ts';
import type { Fleet } from '../../upstream/index.ts';
import { TargetCache } from '../http/index.ts';
import type { Reads } from '../reads/index.ts';
import { createEncodeMetrics } from './encode-metrics.ts';
import { Encoder, nodeReasons } from './encode-submission.ts';
import { ModuleSource } from './module-source.ts';
import { parseRequest } from './parse-request.ts';
import { PassThrough } from './pass-through.ts';
import { Router } from './router.ts';
import { createService } from './serve.ts';
import { ShadowChecks } from './shadow-checks.ts';
import { Submissions } from './submissions.ts';

interface RoutesContext {
  readonly fleet: Fleet;
  readonly reads: Reads;
  readonly registry: Registry;
  readonly journal: Journal;
  /** Live settings of the config. */
  readonly settings: { readonly encode: { readonly enabled: boolean; readonly share: number } };
  /** Empty, or `/v1`. */
  readonly basePath: string;
  /** Ahead of each signing message. */
  readonly signingDomain: string;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  /** Functions that other workers leave to nodes. */
  readonly distrusted: DistrustedFunctions['all'] | undefined;
  /** Publishes an accepted transaction; the client's answer waits for its promise. */
  readonly onSubmitted: ConstructorParameters<typeof Submissions>[0];
  /** Publishes that nodes encode a function from now on. */
  readonly onDistrusted: (functionId: string) => void;
}

/** The routes of one process. */
export type Routes = ReturnType<typeof createRoutes>;

/** Builds the routes, and the encoder with its standing proof. */
export function createRoutes({ fleet, reads, registry, settings, ...more }: RoutesContext) {
  const { sender, latest } = fleet;
  const { journal, basePath, signingDomain, now, distrusted, onSubmitted, onDistrusted } = more;
  const submissions = new Submissions(onSubmitted);
  const router = new Router({ basePath, submissions });
  const passThrough = new PassThrough({ router, fleet, sender, submissions, latest, freshness: reads.freshness });
  const proof = new ShadowProof(Object.assign(settings.encode, { now, distrusted }));
  const metrics = createEncodeMetrics(registry, nodeReasons, () => proof.distrusted.size);
  const modules = new ModuleSource(reads.reader, now);
  const checks = new ShadowChecks({
    fleet,
    sender,
    modules,
    signingDomain,
    proof,
    metrics,
    onMismatch: (mismatch) => {
      onDistrusted(mismatch.functionId);
      journal.record(
        'encode mismatch',
        mismatch,
        'a node encodes this function differently: nodes encode it from now on',
      );
    },
    onNodeRefusal: (refusal) =>
      journal.record('encode unread', refusal, 'a node cannot read a request that was encoded here'),
  });
  const encoder = new Encoder({ fleet, passThrough, modules, proof, checks, metrics, signingDomain });
  const service = createService({
    router,
    targets: new TargetCache(),
    reader: reads.reader,
    freshness: reads.freshness,
    shares: reads.shares,
    passThrough,
    encoder: () => (settings.encode.enabled ? encoder : undefined),
  });
  return {
    /** Serves the requests of clients. */
    service,
    /** Parses a described request as a client's. Never throws. */
    parse: (described: Parameters<typeof parseRequest>[1]) => parseRequest(router, described),
    /** Records a transaction that a node accepted from another process. */
    recordSubmission: (hash: string, upstream: string) => submissions.record(hash, upstream),
    /** Leaves a function to nodes. */
    distrust: (functionId: string) => proof.distrust(functionId),
    /** Functions that are left to nodes. */
    distrusted: () => [...proof.distrusted],
  };
}
