/** Builds the recorder of traces that the config asks for. */
import { hostname } from 'node:os';
import { type Config, packageVersion } from '../config/index.ts';
import { loadOtlp } from '../metrics/index.ts';
import type { ServingContext } from './settings.ts';

/** Loads the recorder's builder. */
export async function loadTracing() {
  const { createTracing } = await loadOtlp();
  return ({ endpoint, headers = {}, share }: NonNullable<Config['tracing']>, context: ServingContext) => {
    const resource = {
      'service.name': 'ledgergate',
      'service.version': packageVersion(),
      'service.instance.id': `${hostname()}-${process.pid}`,
    };
    return createTracing({ endpoint, headers, share, resource }, context);
  };
}
