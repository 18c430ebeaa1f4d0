/** The byte budget of answers: which of them fit, give way or are refused. */
import { test } from 'node:test';
import { ByteBudget, OverBudgetError, type Share } from '../../src/upstream/byte-budget.ts';
import { runScript, scriptsIn, type Steps } from '../support/script.ts';

/** A budget of so many KiB for one answer and for all, with shares by name. Refusals are `over`. */
function stepsOf(largest: number, all: number): Steps {
  const kib = 1024;
  const budget = new ByteBudget({ largest: largest * kib, all: all * kib });
  const shares = new Map<string, Share>();
  const revoked: string[] = [];
  let release: (() => void) | undefined;
  const shareOf = (name: string): Share => {
    const share = shares.get(name) ?? budget.open(() => void revoked.push(name));
    shares.set(name, share);
    return share;
  };
  budget.onShort = (bytes) => {
    revoked.push(`short of ${bytes / kib}`);
    release?.();
    release = undefined;
  };
  return {
    take: (name: string, kibs: number) => {
      try {
        shareOf(name).take(kibs * kib);
        return 'taken';
      } catch (error) {
        return error instanceof OverBudgetError ? 'over' : error;
      }
    },
    close: (name: string) => shareOf(name).close(),
    hold: (kibs: number) => void (release = budget.hold(kibs * kib)),
    left: () => budget.left / kib,
    held: () => budget.held / kib,
    revoked: () => revoked.join('+') || 'none',
  };
}

const scripts = `
one answer takes no more than the largest, all together no more than all | take a 1000, take a 1 = over, take b 500, take b 1 = over, 2x close a, left = 1000, take b 500 = taken, close b, left = 1500
an answer that is short is never refused, and counted | take a 1000, take b 500, take c 64 = taken, left = -64
the budget is asked for room before an answer is refused | hold 1400, take a 300 = taken, revoked = short of 200, held = 300
`;
const oldest = `
when answers do not fit together, the oldest is read to its end | take a 300, take b 300, take c 300, take a 300 = taken, revoked = short of 200+c, take c 1 = over, held = 900
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, () => runScript(stepsOf(1_000, 1_500), script));
for (const [claim, script] of scriptsIn(oldest)) test(claim, () => runScript(stepsOf(1_000, 1_000), script));
