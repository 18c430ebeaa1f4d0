/** Address of a running gateway's operations port, given by URL, by config, or by port. */
import { type CommandCall, UsageError } from './command.ts';

/** Throws UsageError for what cannot be an address. */
export async function operationsUrl(command: string, path: string, call: CommandCall): Promise<URL> {
  if (call.operand !== undefined) {
    if (!/^http:\/\/./.test(call.operand) || !URL.canParse(call.operand)) {
      throw new UsageError(`${command}: expected a URL such as http://127.0.0.1:9090, got "${call.operand}"`);
    }
    return new URL(path, call.operand);
  }
  const { host, port } = await operationsAddress(command, call);
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return new URL(`http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}${path}`);
}

async function operationsAddress(
  command: string,
  call: CommandCall,
): Promise<{ readonly host: string; readonly port: number }> {
  if (call.given.has('config')) {
    const { loadGivenConfig } = await import('./given-config.ts');
    return loadGivenConfig(command, call).config.operations;
  }
  const setting = call.given.get('operations-port');
  const text = setting?.values[0] ?? '9090';
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (port < 1 || port > 65_535)
    throw new UsageError(`${setting?.origin}: expected a port that can be asked, got "${text}"`);
  return { host: '127.0.0.1', port };
}
