/** The routes of the client port: each target is a read, a passed request, or an answer of the gateway's own. */
export type { ParsedRequest } from './parse-request.ts';
export { createRoutes, type Routes } from './routes.ts';
