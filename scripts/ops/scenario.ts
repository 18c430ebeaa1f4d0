/** Faults, one after the other, and the alerts that must report them. */
import { breakConfig, lie, signingRequests, type World } from './world.ts';
import type { Load } from './load.ts';

export interface Expected {
  readonly alert: string;
  /** Labels that distinguish it. */
  readonly of?: Readonly<Record<string, string>>;
}

export interface Act {
  readonly title: string;
  happen(world: World, load: Load): Promise<void>;
  readonly expected: readonly Expected[];
  /** Alerts that may follow from the fault: no mistake when they fire. */
  readonly mayFollow?: readonly string[];
}

const special = '0x1::ledgergate_sample::Padded777';

/** Faults of one group happen together; the next group comes when all its alerts fire. */
export const groups: readonly (readonly Act[])[] = [
  [
    {
      title: 'node full-a is killed',
      happen: ({ full }) => full.a.refuse(),
      expected: [{ alert: 'LedgergateUpstreamDown', of: { upstream: 'full-a' } }],
    },
    {
      title: 'the edge of full-b moves up, to nine minutes below the head',
      async happen({ full }) {
        full.b.clock.window = 100_000n;
      },
      expected: [{ alert: 'LedgergateWindowShrinking', of: { upstream: 'full-b' } }],
    },
  ],
  [
    {
      title: 'nodes encode other bytes to sign',
      async happen({ full, archive, gateway }, load) {
        const nodes = [full.b, full.c, archive];
        const ends = nodes.map((node) => lie(node, 'encode_submission', JSON.stringify(`0x${'ff'.repeat(40)}`)));
        await untilReadiness(gateway, /"distrusted":\["/, (turn) =>
          load.ask('/transactions/encode_submission', signingRequests[turn % signingRequests.length]),
        );
        for (const end of ends) end();
      },
      expected: [{ alert: 'LedgergateEncodeMismatch' }],
    },
    {
      title: 'full-c answers a pinned read otherwise than the others',
      async happen({ full, gateway, head }, load) {
        const body = JSON.stringify({ type: special, data: { address: '0x1', ledger_version: '7', padding: 'ab' } });
        const end = lie(full.c, 'Padded777', body);
        const version = head() - 50_000n;
        await untilReadiness(gateway, /"disagreements":\[\{/, (turn) =>
          load.ask(`/accounts/0x1/resource/${special}?ledger_version=${version - BigInt(turn)}`),
        );
        end();
      },
      expected: [{ alert: 'LedgergateNodesDisagree' }],
    },
    {
      title: 'the config file and the keys file are damaged',
      async happen(world) {
        breakConfig(world);
        world.keys.writeText('keys: [{ name: 1 }\n');
      },
      expected: [{ alert: 'LedgergateConfigRefused' }, { alert: 'LedgergateKeysNotReloaded', of: { source: 'file' } }],
    },
  ],
  [
    {
      title: 'the archive is killed',
      happen: ({ archive }) => archive.refuse(),
      expected: [{ alert: 'LedgergateHistoryLost' }, { alert: 'LedgergateUpstreamDown', of: { upstream: 'archive' } }],
      // Reads of history fail now, one in sixteen of the load.
      mayFollow: ['LedgergateErrorsFast', 'LedgergateErrorsSlow'],
    },
    {
      title: 'Redis is killed',
      happen: ({ redis }) => redis.kill(),
      expected: [{ alert: 'LedgergateRedisDown' }, { alert: 'LedgergateLimitsNotCounted', of: { choice: 'local' } }],
    },
  ],
  [
    {
      title: 'the last nodes are killed',
      async happen({ full }) {
        await Promise.all([full.b.refuse(), full.c.refuse()]);
      },
      expected: [
        { alert: 'LedgergateOutage' },
        { alert: 'LedgergateErrorsFast' },
        { alert: 'LedgergateUpstreamDown', of: { upstream: 'full-c' } },
      ],
    },
  ],
];

/** Asks the gateway again and again, until it shows that it has found out; checks in the background may be skipped. */
async function untilReadiness(
  { operationsUrl }: World['gateway'],
  pattern: RegExp,
  ask: (turn: number) => Promise<unknown>,
): Promise<void> {
  for (let turn = 0; turn < 200; turn += 1) {
    await ask(turn);
    if (pattern.test(await (await fetch(`${operationsUrl}/readyz`)).text())) return;
  }
}

/** A machine that does other things beside is not what is checked here. */
export const ofBusyMachines: readonly string[] = ['LedgergateHitsSlow', 'LedgergateStale'];
