/** The config: read from file, flags and variables, checked by its schema, with problems that name their place. */
export { ClientTls } from './client-tls.ts';
export { compareConfigs } from './changes.ts';
export {
  type AccessConfig,
  accessRedisOf,
  type Config,
  type RedisConfig,
  type RedisServersConfig,
  type UpstreamConfig,
} from './config.ts';
export { explainFile, explainValue } from './explain.ts';
export { packageVersion } from './package-version.ts';
export { accessOperations, keyChangesSchema, keySchema, newKeySchema } from './schema/access-schema.ts';
export { logChange } from './schema/schema.ts';
export { type StalenessOverride, StalenessOverrides } from './schema/staleness-overrides.ts';
export { type GivenSetting, loadConfig, type LoadedConfig, type LoadOptions } from './source/load.ts';
export { ConfigError, type Problem } from './source/problem.ts';
export { WatchedFiles } from './source/watched-files.ts';
export { TlsFiles, type TlsMaterial } from './tls-files.ts';
