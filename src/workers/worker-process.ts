/**
 * A worker's process, from its first line on. A terminal's Ctrl-C and a service manager's SIGTERM or SIGHUP reach the whole
 * group: only the primary acts on them, and tells its workers. A worker whose primary is gone has nobody to listen for.
 */
import cluster from 'node:cluster';

process.on('SIGTERM', () => undefined);
process.on('SIGINT', () => undefined);
process.on('SIGHUP', () => undefined);
process.on('disconnect', () => process.exit(0));
// The cluster module says that it has taken a connection, and nobody is there to hear it: 'disconnect' is what counts.
cluster.worker?.on('error', () => undefined);
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);

// Loading the gateway takes a while, and signals come at any time.
const { serveAsWorker } = await import('./serve-as-worker.ts');
await serveAsWorker();

/** After a fault nobody expected, the state of the process is unknown: the primary starts a fresh one. */
function fail(error: unknown): void {
  process.stderr.write(`ledgergate: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`, () =>
    process.exit(1),
  );
}
