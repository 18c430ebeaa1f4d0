/** Keys, rights, limits and usage. Admits each request of a config with `access`. */
export type { Access, AccessDependencies } from './access.ts';
export { AdmittedRequest } from './admitted-request.ts';
export { clientOf } from './keys/client-address.ts';
export { createKey } from './keys/key-set.ts';
export { inspectKeysFile, readKeysFile } from './keys/keys-file.ts';
export type { AccessOperation } from './keys/principal.ts';
export { isBearer } from './keys/principals.ts';
export { LimitService } from './limits/limits-shared.ts';
export { mergeRows } from './usage/usage-tally.ts';

/** Loads `createAccess`: only configs with `access` need it. */
export const loadAccess = async () => (await import('./access.ts')).createAccess;
