/** The door of commands. */
export type { Screen, Terminal } from './command.ts';
export { runCommand } from './run-command.ts';
