/** The list `latest.overrides`: bounds of the age of reads without a version, by function or route. */
import { z } from 'zod';
import { FunctionId } from '../../ledger/index.ts';
import { hour, pattern, requiredDuration } from './schema-parts.ts';

/** Routes with reads of the latest state at a version that the gateway chooses. */
export const latestRoutes = [
  'resource',
  'module',
  'view',
  'account',
  'balance',
  'resources',
  'modules',
  'table_item',
  'raw_table_item',
  'transactions',
  'account_transactions',
  'transaction_summaries',
  'ledger_info',
] as const;

const most = 100;
const viewFault = 'expected a function such as "0x1::coin::balance", or "0x1::coin::*" for every one of a module';

/** The section `latest.overrides`. */
export const stalenessOverrides = z
  .array(
    z.strictObject({
      view: pattern(/^[^\s:]+::[^\s:]+::[^\s:]+$/, viewFault)
        .refine((text) => findFunctions(text) !== undefined, { error: viewFault })
        .optional()
        .describe(
          'View function by its full name, or ADDRESS::MODULE::* for every one of a module. Views in BCS, of which the gateway reads no function, match route: view alone.',
        ),
      route: z.enum(latestRoutes).optional().describe('Route, as metrics name it.'),
      maxStaleness: requiredDuration(0, hour).describe(
        'Age of the shared state for these reads, shorter or longer than latest.maxStaleness; 0ms: each goes to an upstream.',
      ),
    }),
    { error: 'expected a list of overrides' },
  )
  .max(most, { error: `must have at most ${most} overrides` })
  .default([])
  .describe(
    'Other bounds than maxStaleness, by exactly one of view and route; the first that matches a read holds. With a bound of the plan, the smaller one holds; Ledgergate-Max-Staleness precedes both.',
  );

/** A function, or every one of a module (`::*`), with its address in canonical spelling. */
export function findFunctions(text: string): string | undefined {
  const isModule = text.endsWith('::*');
  const id = FunctionId.find(isModule ? `${text.slice(0, -1)}any` : text);
  if (id === undefined) return undefined;
  return isModule ? `${id.address}::${id.module}::*` : FunctionId.format(id);
}

/** An override of the config: exactly one of `view` (canonical) and `route` is set. */
export interface StalenessOverride {
  readonly view?: string | undefined;
  readonly route?: (typeof latestRoutes)[number] | undefined;
  readonly maxStalenessMs: number;
}

/** Decisions on a list of overrides. */
export const StalenessOverrides = {
  /** The first that matches reads of a route. `called`: the view function, or `::*` of a module; `undefined`: unknown. */
  find(
    overrides: readonly StalenessOverride[],
    route: string,
    called: string | undefined,
  ): StalenessOverride | undefined {
    return overrides.find((override) => {
      if (override.route !== undefined) return override.route === route;
      const { view = '' } = override;
      return view === called || (view.endsWith('::*') && called?.startsWith(view.slice(0, -1)) === true);
    });
  },

  /** Key and reads of an override, such as `latest.overrides[0] view 0x1::coin::*`. */
  textOf(overrides: readonly StalenessOverride[], override: StalenessOverride): string {
    const { view, route } = override;
    const reads = view === undefined ? `route ${route}` : `view ${view}`;
    return `latest.overrides[${overrides.indexOf(override)}] ${reads}`;
  },

  /** A sentence for each override that never holds, because an earlier one matches all of its reads. */
  warnings(overrides: readonly StalenessOverride[]): readonly string[] {
    return overrides.flatMap((override) => {
      const { view, route = 'view' } = override;
      const first = StalenessOverrides.find(overrides, route, view);
      if (first === override || first === undefined) return [];
      const [text, before] = [override, first].map((one) => StalenessOverrides.textOf(overrides, one));
      return [`${text} never applies: ${before} matches all of its reads, and comes first`];
    });
  },
} as const;
