/** Memory as a test can see it: what is still held, without what is only not collected yet. */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Of texts and objects; the bytes of buffers are not in it. */
export function heldBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  return process.memoryUsage().heapUsed;
}
