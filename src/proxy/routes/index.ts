/** The routes of the client port: each target is a read, a passed request, or an answer of the gateway's own. */
export type { ParsedRequest } from './router.ts';
export { Routes } from './routes.ts';
export { pagePolicy } from './usage-page.ts';
