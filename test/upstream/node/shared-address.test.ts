/** Several nodes behind one address: which orders of answers show them, and the window that they have together. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { LedgerInfo } from '../../../src/ledger/ledger-headers.ts';
import { LedgerVersion } from '../../../src/ledger/version.ts';
import { RetentionWindow } from '../../../src/upstream/node/retention-window.ts';
import { SharedAddress } from '../../../src/upstream/node/shared-address.ts';
import { holdingOf } from '../../../src/upstream/select/ranking.ts';
import { ledgerInfo } from '../../support/ledger-info.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

/** `500-900`: oldest version and head. `500-900#2`: of chain 2. */
function ledger(text: string, chainId = 1) {
  const [oldest = '', head = '', chain = chainId] = text.split(/[-#]/);
  return ledgerInfo({ version: BigInt(head), oldest: BigInt(oldest), chainId: Number(chain) });
}

const settled = (): Promise<void> => new Promise(setImmediate);

/** Times of looks are on a clock that steps alone move on. */
function stepsOf(t: TestContext): Steps {
  const address = new SharedAddress();
  const window = new RetentionWindow(address);
  let [clockMs, lookMs, looks, sent, marks, spare] = [0, 1, 0, 0, 0, Infinity];
  let answers = Promise.withResolvers<void>();
  answers.resolve();
  const taken: string[] = [];
  t.mock.method(performance, 'now', () => clockMs);
  const count = async (): Promise<number> => {
    await settled();
    const counted = looks;
    looks = 0;
    return counted;
  };
  return {
    answer: (ledgerText: string, sentAtMs: number, nowMs: number, chainId?: number) =>
      address.observe(ledger(ledgerText, chainId), sentAtMs, nowMs),
    /** An answer of a chain that is not settled. */
    strange: (ledgerText: string, sentAtMs: number, nowMs: number) =>
      address.observe(ledger(ledgerText), sentAtMs, nowMs, false),
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
    clock: (ms: number) => (clockMs = ms),
    /** Looks get the answers of these ledgers in turn, from the first on; `none`: no answer, `9*0-900`: nine. */
    behind: (...ledgers: readonly string[]) => {
      const each = ledgers.flatMap((text) => {
        const [ledgerText = '', times = 1] = text.split('*').toReversed();
        return Array<string>(Number(times)).fill(ledgerText);
      });
      address.attach({
        ask: async (withinMs) => {
          assert.equal(withinMs, 500);
          const text = each[sent++ % each.length] ?? '';
          looks += 1;
          await answers.promise;
          clockMs += lookMs;
          return text === 'none' ? undefined : ledger(text);
        },
        mayAsk: () => looks < spare,
        onShared: () => (marks += 1),
      });
    },
    /** Each look takes so long. */
    slow: (ms: number) => (lookMs = ms),
    /** So many looks may be sent. */
    spare: (most: number) => (spare = most),
    /** Looks that are sent get no answer before `open`. */
    shut: () => (answers = Promise.withResolvers()),
    open: () => answers.resolve(),
    check: () => void address.check(),
    looks: count,
    marks: () => marks,
    /** A probe each second until `untilMs`: the seconds with looks, and how many. */
    probes: async (untilMs: number) => {
      const rounds: string[] = [];
      for (clockMs = 0; clockMs <= untilMs; clockMs += 1_000) {
        const atMs = clockMs;
        await address.round();
        if (looks > 0) rounds.push(`${atMs / 1_000}:${await count()}`);
        clockMs = atMs;
      }
      return rounds.join(' ');
    },
    round: () => void address.round(),
    /** The answers of looks while fewer than `most` are taken; \`!\`: of one node. */
    settle: async (most: number) => {
      const take = (info: LedgerInfo, sentAtMs: number): void => {
        taken.push(`${info.version}@${sentAtMs}${address.isShared ? '' : '!'}`);
      };
      void address.settle(() => taken.length < most, take);
      await settled();
      return taken.splice(0).join(' ') || 'none';
    },
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
answers of a chain and another, within which a node goes back twice, are of several | answer 0-900 0 1 1, answer 0-900 10 11 2, answer 0-800 20 21 2, several = true
an answer to a request that was sent as the one before arrived is compared | answer 0-900 0 5, answer 0-800 5 6 = true
steps back 10 s apart are of several, and 5 minutes after the last they still are | answer 0-900 0 1, answer 0-800 2 3, answer 0-900 4 5, answer 0-800 9999 10003, several = true, answer 0-900 10004 310003, several = true, answer 0-900 310003 310004, several = false
a minute after its first report the spread is as before, and then begins anew | every 100 500-900 0-900 500-900 0-900, answer 300-900 60001 60001, answer 300-900 120001 120001, spread = 0-500, answer 300-900 120002 120002, answer 300-900 180003 180003, spread = 300-300
reports of another chain begin a spread of that chain | answer 0-900 0 1 2, answer 100-900 10 11, answer 0-900 20 21 2, answer 100-900 30 31, answer 0-900 40 41 2, answer 100-900 50 51, several = true, spread = 100-100
without an answer there is no spread | spread = -
a check is 16 looks, and one a minute serves all | behind 0-900, clock 1000, check, looks = 16, clock 60999, check, looks = 0, clock 61000, check, looks = 16
while looks of a check are in flight no others are sent, and after its time none at all | behind 0-900, shut, check, clock 60000, check, settle 9 = none, looks = 1, open, looks = 0
a check without looks to send shows nothing | check, several = false
looks end with the second step back, which is reported once | behind 500-900 0-900, check, looks = 4, several = true, marks = 1, answer 0-700 5 6 = true, looks = 0, marks = 1
after the first step back 16 more are sent, without another check | behind 15*5-900 99*0-900, check, looks = 32, several = false, marks = 0, clock 60000, check, looks = 16
looks end when no more may be sent | behind 0-900, spare 3, check, looks = 3
when one has no answer, until the next check | behind 0-900 0-900 none, check, looks = 3, clock 60000, check, looks = 3
and after half a second | behind 0-900, slow 100, check, looks = 5
a step back has looks sent, within a minute of others, too | behind 0-800, check, looks = 16, clock 100, answer 0-900 100 101 = false, answer 0-800 102 103 = true, looks = 16
an answer that goes on has none sent | behind 0-900, answer 0-900 0 1 = false, answer 0-901 2 3 = false, looks = 0
nor has a step back to a chain that a look settles | behind 0-800, strange 0-900 0 1 = false, strange 0-900#2 2 3 = true, looks = 0
or of an address that leads to several nodes | every 100 0-900 0-800 0-900 0-800, behind 0-800, answer 0-700 1000 1001 = true, looks = 0, marks = 0
the second step back of answers is reported once | behind none, every 100 0-900 0-800 0-900 0-800 0-700, marks = 1
probes have three looks sent each 5 s for a minute, then each minute | behind 0-900, probes 200000 = 0:3 5:3 10:3 15:3 20:3 25:3 30:3 35:3 40:3 45:3 50:3 55:3 60:3 120:3 180:3
looks settle where several nodes went back to, as long as that is open | every 100 0-900 0-800 0-900 0-800, behind 0-100 0-101, clock 1000, settle 2 = 100@1000 101@1001, several = true, looks = 2
until one has no answer, at most once a second | every 100 0-900 0-800 0-900 0-800, behind 0-100 none, clock 5000, settle 9 = 100@5000, settle 9 = none, clock 5999, settle 9 = none, looks = 2, clock 6000, settle 9 = 100@6000
after 16 that decide nothing the last counts as that of one node | every 100 0-900 0-800 0-900 0-800, behind 15*0-100 0-99, settle 99 = 100@0 100@1 100@2 100@3 100@4 100@5 100@6 100@7 100@8 100@9 100@10 100@11 100@12 100@13 100@14 99@15!, several = false, answer 0-98 310 311 = false, answer 0-97 312 313 = true, several = false
without looks to send nothing settles | settle 9 = none
while a look that settles is in flight no others are sent, and none for a minute after | every 100 0-900 0-800 0-900 0-800, behind 0-900, shut, settle 1 = none, clock 9000, check, round, settle 1 = none, looks = 1, open, looks = 0, settle 1 = 900@0, clock 68999, check, looks = 0
`;

for (const [claim, script] of scriptsIn(scripts)) test(claim, (t) => runScript(stepsOf(t), script));
