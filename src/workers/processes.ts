import { availableParallelism } from 'node:os';
import type { Config } from '../config/config.ts';

/** How many processes are to serve. 1: the one that is asked, without a primary and its workers. */
export function processesOf({ workers }: Config): number {
  return workers === 'auto' ? availableParallelism() : workers;
}
