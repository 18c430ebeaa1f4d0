/** The door of config. */
export { compareConfigs } from './changes.ts';
export type {
  AccessConfig,
  AccessLogConfig,
  Config,
  LogConfig,
  PlanConfig,
  RedisConfig,
  StoreConfig,
  TlsConfig,
  TracingConfig,
  UpstreamConfig,
} from './config.ts';
export { explainFile } from './explain.ts';
export { packageVersion } from './package-version.ts';
export { keySchema } from './schema/access-schema.ts';
export { defaultCiphers, durationMs } from './schema/schema-parts.ts';
export { logChange } from './schema/telemetry-schema.ts';
export { loadConfig, type LoadedConfig } from './source/load.ts';
export { findNearMiss, nearMissHint } from './source/near-miss.ts';
export { type GivenSettings, type Override, overridesOf } from './source/overrides.ts';
export { ConfigError, formatPath, formatProblem, type KeyPath, type Problem } from './source/problem.ts';
export { digestOf, FileWatch, readText } from './source/text-file.ts';
export type { Environment } from './source/yaml-source.ts';
export { inspectTls, readTlsPair, type TlsPair } from './tls-pair.ts';
