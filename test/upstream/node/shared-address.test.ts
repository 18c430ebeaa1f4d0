/** Several nodes behind one address: which orders of answers show them, and the window that they have together. */
import { test } from 'node:test';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { RetentionWindow } from '../../../src/upstream/node/retention-window.ts';
import { SharedAddress } from '../../../src/upstream/node/shared-address.ts';
import { holdingOf } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

/** `500-900`: oldest version and head. */
function ledger(window: string, chainId = 1) {
  const [oldest = '', head = ''] = window.split('-');
  return ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest), chainId });
}

function stepsOf(): Steps {
  const address = new SharedAddress();
  const window = new RetentionWindow(address);
  return {
    answer: (ledgerText: string, sentAtMs: number, nowMs: number, chainId?: number) =>
      address.observe(ledger(ledgerText, chainId), sentAtMs, nowMs),
    /** Answers of the ledgers in turn, so many ms apart, to requests of 1 ms. */
    every: (ms: number, ...ledgers: readonly string[]) => {
      for (const [at, each] of ledgers.entries()) address.observe(ledger(each), at * ms, at * ms + 1);
    },
    several: () => address.isShared,
    spread: () => {
      const spread = address.spreadOf(ledger('0-0'));
      return [spread?.deepest, spread?.shallowest].map((info) => info?.oldestVersion).join('-');
    },
    report: (ledgerText: string, nowMs: number, chainId?: number) => window.observe(ledger(ledgerText, chainId), nowMs),
    refuse: (version: number, nowMs: number) => window.observeRefusal(LedgerVersion.of(BigInt(version)), nowMs),
    holding: (version: number, nowMs: number) => holdingOf(window.at(nowMs), BigInt(version)),
    oldest: (nowMs: number) => window.at(nowMs)?.oldest,
    believed: () => window.believed?.oldestVersion,
    reported: () => window.info?.oldestVersion,
  };
}

/** Claim and script. `answer 0-900 5 6 2`: oldest version and head, when it was sent and answered, chain. */
const scripts = `
two steps back are of several nodes: of two windows, in turn | every 100 500-900 0-901 500-902 0-903, several = true
of two heads | every 100 0-900 0-800 0-902 0-802, several = true
of three nodes, each several times | every 100 0-9 0-9 5-9 5-9 3-9 3-9 0-9, several = true
one node is one node: one that prunes | every 100 0-900 100-950 200-1000 300-1050, several = false
one that lags and stands still | every 100 0-900 0-900 0-901 0-901, several = false
one that is restored to an older ledger once | every 100 500-900 100-400 100-401 100-500 600-1000, several = false
one that is replaced by a deeper one | every 100 500-900 500-901 0-901 0-902, several = false
steps back less than 10 s apart are of several | every 4900 0-900 0-800 0-900 0-800, several = true
steps back more than 10 s apart are of one node that was restored twice | every 5100 0-900 0-800 0-900 0-800, several = false
answers that overtake each other are no steps back | answer 405-905 10 20 = false, answer 404-904 9 21 = false, answer 403-903 8 22 = false, answer 402-902 7 23 = false, several = false
a move to another chain and back is of one node | answer 0-900 0 1 1, answer 0-900 10 11 2, answer 0-900 20 21 2, answer 0-900 30 31 1, several = false
answers of two chains in turn are of several | answer 0-900 0 1 1, answer 0-900 10 11 2, answer 0-900 20 21 2, answer 0-900 30 31 1, answer 0-900 40 41 2, several = true
five minutes after the last step back the address is of one node again | every 100 500-900 0-900 500-900 0-900, answer 0-900 300000 300001, several = true, answer 0-900 300400 300401, several = false
the spread holds reports for one to two minutes | every 100 500-900 0-900 500-900 0-900, spread = 0-500, answer 300-900 61000 61001, spread = 0-500, answer 300-900 122000 122001, spread = 300-300
a window of several nodes surely holds what all of them hold, and may hold what one of them does | every 100 500-900 0-900 500-900 100-900 50-900, report 50-900 500, holding 600 500 = held, holding 499 500 = edge, holding 0 500 = edge, believed = 500, reported = 50
a refusal is of one of the nodes, and changes nothing for the others | every 100 500-900 0-900 500-900 100-900 50-900, report 50-900 500, refuse 60 500 = false, holding 60 500 = edge
a spread of another chain changes no window | every 100 500-900 0-900 500-900 0-900, report 100-900 500 2, oldest 500 = 100, believed = 100
a refusal of before counts no more once several nodes answer | report 0-900 0, refuse 60 0 = true, oldest 500 = 61, every 100 500-900 0-900 500-900 0-900, oldest 500 = 0
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, () => runScript(stepsOf(), script));
