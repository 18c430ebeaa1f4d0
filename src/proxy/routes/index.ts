/** The door of proxy/routes. */
export { createEncodeMetrics } from './encode-metrics.ts';
export { Encoder, nodeReasons } from './encode-submission.ts';
export { ModuleSource } from './module-source.ts';
export { PassThrough } from './pass-through.ts';
export { Match, Router } from './router.ts';
export { createService } from './serve.ts';
export { ShadowChecks } from './shadow-checks.ts';
export { Submissions } from './submissions.ts';
