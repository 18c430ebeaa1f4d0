/** `drain NAME` and `resume NAME`: takes a node out of the traffic of a running gateway, and back. */
import { type CommandCall, type ExitCode, UsageError } from './command.ts';
import { askAdmin } from './operations-port.ts';

/** Longer than the gateway waits for its workers. */
const timeoutMs = 10_000;

/** `drain NAME`: the node gets no new request; prints the number of those in flight, which end. */
export async function drain(call: CommandCall): Promise<ExitCode> {
  const name = nameOf('drain', call);
  const inFlight = await post(name, 'drain', call);
  call.terminal.out(`${name} is drained; requests in flight: ${String(inFlight)}`);
  return 0;
}

/** `resume NAME`: the node gets requests again. */
export async function resume(call: CommandCall): Promise<ExitCode> {
  const name = nameOf('resume', call);
  await post(name, 'resume', call);
  call.terminal.out(`${name} is resumed`);
  return 0;
}

/** The number of requests in flight at the node. */
function post(name: string, action: string, call: CommandCall): Promise<unknown> {
  return askAdmin(`/admin/upstreams/${encodeURIComponent(name)}/${action}`, 'inFlight', call, timeoutMs);
}

function nameOf(command: string, { operand }: CommandCall): string {
  if (operand === undefined) throw new UsageError(`${command} needs the NAME of an upstream, as in: ledgergate status`);
  return operand;
}
