/** Terms of a ledger's history in the store's file, which the workers of one gateway share. */
import type { TermRegistry } from '../history/membership.ts';
import { endedField, formatTerm, readTerms, surplusFields, type Term, type Terms } from '../history/terms.ts';
import type { PurgeMark } from '../purge/purge-news.ts';
import type { AnswerStore } from './store.ts';

interface StoreRegistryParts {
  readonly store: AnswerStore;
  /** A term that no member has recorded for this long, in ms, has no members. */
  readonly beatMs: number;
  /** The name of this start of the gateway: earlier ones have no members. */
  readonly run: string;
}

/** Reads terms by the process's own connection, and writes them by the thread. */
export class StoreRegistry implements TermRegistry {
  readonly #parts: StoreRegistryParts;

  constructor(parts: StoreRegistryParts) {
    this.#parts = parts;
  }

  read(ledger: string): Promise<Terms | undefined> {
    const fields = this.#parts.store.reader?.terms(ledger);
    return Promise.resolve(fields && readTerms(fields));
  }

  /** A process that was killed is no member: it may not have noticed a rollback of its last moments. */
  hasMembers(ledger: string, id: string): Promise<boolean | undefined> {
    const { store, run, beatMs } = this.#parts;
    const pids = store.reader?.members(ledger, id, run, Date.now() - beatMs);
    return Promise.resolve(pids?.some((pid) => pid !== process.pid && isAlive(pid)));
  }

  async publish(ledger: string, id: string, term?: Term): Promise<boolean> {
    const { run } = this.#parts;
    const { link } = this.#parts.store;
    if (term !== undefined && !(await link.do({ kind: 'put terms', ledger, fields: { [id]: formatTerm(term) } })))
      return false;
    return link.do({ kind: 'beat', ledger, term: id, run });
  }

  end(ledger: string, id: string): Promise<boolean> {
    return this.#parts.store.link.do({ kind: 'put terms', ledger, fields: { [endedField(id)]: '1' } });
  }

  async tidy(ledger: string, terms: Terms): Promise<void> {
    await this.#parts.store.link.do({ kind: 'delete terms', ledger, fields: surplusFields(terms) });
  }
}

const purges = 'purges ';
const newest = 'newest';

/** The mark of the newest purge of a ledger's replicas, among the store's terms. */
export function purgeMarkOf(store: AnswerStore): (ledger: string) => PurgeMark {
  return (ledger) => ({
    read: () => store.reader?.terms(purges + ledger)?.[newest],
    record: (id) => {
      // Without it the next start hides everything.
      if (store.isClear) void store.link.do({ kind: 'put terms', ledger: purges + ledger, fields: { [newest]: id } });
    },
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
