/** The door of commands. */
export type { Terminal } from './command.ts';
export { runCommand } from './run-command.ts';
