/** The log settings in force: the config's, or an operator's until the next reload. */
import type { Logger } from 'pino';
import { type Config, logChange } from '../../config/index.ts';
import { type AdminAnswer, faultsOf } from './admin-request.ts';

/** The log of the gateway, whose settings an operator changes. */
export interface LogAdminParts {
  readonly log: { readonly logger: Logger; readonly inForce: Config['log'] };
  /** Puts settings into force, in every process. */
  readonly setLog: (inForce: Config['log']) => void;
}

/** Reads and changes log settings, for `/admin/log`. */
export type LogAdmin = ReturnType<typeof createLogAdmin>;

/** See `LogAdmin`. */
export function createLogAdmin({ log, setLog }: LogAdminParts) {
  let by: 'config' | 'operator' = 'config';
  const show = (): AdminAnswer => ({ status: 200, body: { ...shown(log.inForce), by } });
  return {
    show,
    reload(config: Config['log']): void {
      by = 'config';
      setLog(config);
    },
    change(request: unknown, from: string): AdminAnswer {
      const parsed = logChange.safeParse(request);
      if (!parsed.success) return { status: 400, body: { message: faultsOf(parsed.error, 'the body') } };
      const { logger, inForce } = log;
      const { level = inForce.level, access = {} } = parsed.data;
      const before = inForce.access;
      const { share = before.share, slow: slowMs = before.slowMs, failed = before.failed } = access;
      const next = { ...inForce, level, access: { share, slowMs, failed } };
      // Logged at the more verbose of both levels.
      const logChanged = (): void =>
        logger.info({ from, settings: shown(next) }, 'an operator changed the log settings');
      const isLogged = logger.isLevelEnabled('info');
      if (isLogged) logChanged();
      by = 'operator';
      setLog(next);
      if (!isLogged) logChanged();
      return show();
    },
  };
}

/** In the form of the config file. */
function shown({ level, access: { slowMs, ...access } }: Config['log']) {
  return { level, access: { ...access, slow: `${slowMs}ms` } };
}
