/** `status [URL]`: what the status page of a running gateway shows, as text or as JSON. */
import { statusLines } from '../proxy/operations/index.ts';
import { type CommandCall, type ExitCode, RuntimeFailure } from './command.ts';
import { fetchText, operationsUrl } from './operations-port.ts';

const timeoutMs = 3_000;

/** 0: the status was printed, whatever it is; `health` is for scripts that need readiness. */
export async function status(call: CommandCall): Promise<ExitCode> {
  const { given, terminal } = call;
  const url = await operationsUrl('status', '/status.json', call);
  const json = await fetchText(url, timeoutMs);
  const lines = statusLines(json);
  if (lines === undefined) throw new RuntimeFailure(`${url.href} is not the status of a gateway`);
  const isJson = given.has('json') || given.get('format')?.values[0] === 'json';
  for (const line of isJson ? [json] : lines) terminal.out(line);
  return 0;
}
