/** A sample node on its own, whose ledger moves, as the upstream of a benchmark. */
import { startServer, type ServerProcess } from './process-under-test.ts';

export function startSampleNode(cpu: number): Promise<ServerProcess> {
  return startServer('sample node', ['bench/support/sample-node-server.ts'], cpu);
}
