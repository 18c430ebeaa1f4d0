/** A fleet of nodes without connections, with all that it reports. */
import type { TestContext } from 'node:test';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { FleetState } from '../../src/upstream/fleet-state.ts';
import type { Upstream } from '../../src/upstream/node/upstream.ts';
import type { Tier } from '../../src/upstream/select/ranking.ts';
import { ledgerInfo, type MadeUpLedger } from '../support/ledger-info.ts';
import { nodeAt } from '../support/node-client.ts';

interface FleetOptions {
  /** Default: `node`. */
  readonly dialect?: Dialect | 'auto';
  /** Of the config. */
  readonly chainId?: number;
  /** The last nodes, which are not in the fleet yet. */
  readonly spares?: number;
}

/** Short names of changes. */
const named: Readonly<Record<string, string>> = {
  'node foreign': 'foreign',
  rollback: 'back',
  'node suspect': 'suspect',
  outage: 'outage',
  'outage over': 'outage over',
  'history lost': 'lost',
  'history back': 'found',
  'head lower': 'lower',
};

/** Nodes of these tiers, called n0, n1 and so on; `report` is an answer of one of them. */
export function fleetOf(t: TestContext, tiers: readonly Tier[], { dialect, spares = 0, ...fixed }: FleetOptions = {}) {
  const upstreams = tiers.map((tier, index) => nodeAt(t, 9, { name: `n${index}`, tier }));
  const [reports, doubted, taken, news]: [string[], string[], string[], string[]] = [[], [], [], []];
  const note = (name: string, ...values: readonly unknown[]): void => void news.push([name, ...values].join(' '));
  const fleet = new FleetState(
    upstreams.slice(0, upstreams.length - spares),
    dialect ?? new Dialect('node'),
    {
      onUnconfirmed: ({ name }) => doubted.push(name),
      onGeneration: () => undefined,
      onChange: (change, fields) => {
        const values = Object.values(fields);
        note(change, ...values);
        const words = values.filter((word) => word !== undefined && word !== 'other chain');
        if (named[change] !== undefined) reports.push([named[change], ...words].join(' '));
        if (change === 'chain taken') taken.push(words.join(' '));
      },
      onHead: ({ version }, source) => note('head', version, source),
      onAwaited: () => note('awaited'),
      onConfirmed: (version) => note('confirmed', version),
      onRefused: ({ name }, version) => note('refused', name, version),
    },
    fixed,
  );
  const at = (index: number): Upstream => upstreams[index] as Upstream;
  const report = (index: number, ledger: MadeUpLedger, nowMs = 0, lookSentAtMs?: number): boolean => {
    at(index).recordAnswer(5, nowMs);
    return fleet.observe(at(index), ledgerInfo(ledger), nowMs, lookSentAtMs);
  };
  /** A look at the ledger info, sent and answered at one moment. */
  const look = (index: number, ledger: MadeUpLedger, nowMs: number): boolean => report(index, ledger, nowMs, nowMs);
  /** Two failures in a row, as the sender reports them. */
  const takeDown = (index: number): void => {
    for (const _ of [1, 2]) at(index).recordFailure(5, 0, 'time-out');
    fleet.refresh();
  };
  /** The news since the last call. */
  const told = (): readonly string[] => news.splice(0);
  return { fleet, at, report, look, takeDown, reports, doubted, taken, told };
}
