/** The door of workers. */
export { startWorkers } from './workers.ts';
