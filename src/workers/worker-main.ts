/**
 * The entry of a worker process. A terminal's Ctrl-C and a service manager's SIGTERM or SIGHUP reach the whole group: the
 * primary alone acts on them. A worker ends with its primary, the source of its connections.
 */
import cluster from 'node:cluster';
import { setFlagsFromString } from 'node:v8';

// The flag of the primary, for the reason in `bin/start.js`: a process does not inherit the flags that its parent has set.
setFlagsFromString('--no-allocation-site-pretenuring');

process.on('SIGTERM', () => undefined);
process.on('SIGINT', () => undefined);
process.on('SIGHUP', () => undefined);
process.on('disconnect', () => process.exit(0));
// The cluster module acknowledges connections also to an exited primary; `disconnect` handles its exit.
cluster.worker?.on('error', () => undefined);
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

// Imported last: signals also arrive while modules load.
const { serveAsWorker } = await import('./serve-as-worker.ts');
await serveAsWorker();

/** Unexpected exception (a bug): the state of the process is undefined, and the primary starts a fresh one. */
function fail(error: unknown): void {
  process.stderr.write(`ledgergate: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`, () =>
    process.exit(1),
  );
}
