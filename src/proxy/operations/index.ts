/** The door of proxy/operations. */
export { createOperations, type OperationsSource } from './operations-server.ts';
export { ProcessOperations } from './process.ts';
export { callMs, joinProcesses, type ProcessCalls, processCalls } from './processes.ts';
export type { ReloadStatus } from './status/report.ts';
export { statusLines } from './status/terminal.ts';
