/** The door of proxy/operations. */
export { createOperations, type OperationsSource } from './operations-server.ts';
export { ProcessOperations } from './process.ts';
export { joinProcesses, type ProcessCalls } from './processes.ts';
export { statusLines } from './status/terminal.ts';
