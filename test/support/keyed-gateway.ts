/** A gateway whose clients have keys of a file, before one node. */
import type { AccessConfig } from '../../src/config/config.ts';
import { type LogLine, nodeAndGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { accessConfig, keysFile, type TestKey } from './keys.ts';
import type { Ending } from './temporary-folder.ts';

/** A read whose answer never changes. */
export const path = '/accounts/0x1/module/coin?ledger_version=5';

export function bearer(key: string | TestKey): Record<string, string> {
  return { authorization: `Bearer ${typeof key === 'string' ? key : key.text}` };
}

/** `config`, `access`: other parts of the config. `lines`: gets those of the log. */
export async function keyedGateway(
  t: Ending,
  keys: readonly TestKey[],
  { config, ...access }: Partial<AccessConfig> & Pick<TestGatewayOptions, 'config'> = {},
  lines?: LogLine[],
) {
  const file = keysFile(t, keys);
  const { node, gateway } = await nodeAndGateway(t, {
    access: accessConfig({ keys: { file: file.path, redis: false }, ...access }),
    ...(config && { config }),
    ...(lines && { onLog: (line) => lines.push(line) }),
  });
  const statusOf = async (key: string | TestKey) => (await gateway.get(path, bearer(key))).status;
  return { node, file, gateway, statusOf };
}

/** Applies a config with other plans, and with other parts of `access`; resolves to the outcome. */
export async function replan(
  { reloads }: TestGateway,
  plans: AccessConfig['plans'],
  more: Partial<AccessConfig> = {},
): Promise<string | undefined> {
  const { access, ...config } = reloads.config;
  if (access === undefined) throw new Error('the endpoint is open');
  await reloads.take({ ...config, access: { ...access, ...more, plans } });
  return reloads.status?.result;
}
