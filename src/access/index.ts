/** Keys, rights, limits and usage. Admits each request of a config with `access`. */
export type { Access, AccessPeers } from './access.ts';
export { clientOf } from './keys/client-address.ts';
export { inspectKeysFile, KeysFileEditor } from './keys/file-keys.ts';
export { inspectIssuer } from './keys/jwt-keys.ts';
export { type KeysChange, KeysFault } from './keys/key-source.ts';
export type { KeysRequest } from './keys/key-store.ts';
export { type AccessOperation, describeKey, holdsKey, parseBearer } from './keys/principals.ts';
export type { AdmittedRequest } from './limits/limits.ts';
export { GatewayCounts } from './limits/primary-counter.ts';
export { mergeRows } from './usage/usage-store.ts';

/** Loads the class `Access`: only configs with `access` need it. */
export const loadAccess = async () => (await import('./access.ts')).Access;
