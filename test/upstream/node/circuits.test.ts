import { test } from 'node:test';
import { Deferral, Ejection, type FailureSign, type Shedding, Silence } from '../../../src/upstream/node/circuits.ts';
import { runScript, scriptsIn, type Steps } from '../../support/script.ts';

/** A refusal of a node that names this wait. */
const after = (retryAfterMs?: number): Shedding => ({ retryAfterMs, isOfNode: true });

function deferred(): Steps {
  const deferral = new Deferral();
  return {
    refused: (sentAtMs: number, nowMs: number, waitMs?: number) => deferral.refused(sentAtMs, after(waitMs), nowMs),
    proxy: (sentAtMs: number, nowMs: number, retryAfterMs: number) =>
      deferral.refused(sentAtMs, { retryAfterMs, isOfNode: false }, nowMs),
    answered: (sentAtMs: number, nowMs: number) => deferral.answered(sentAtMs, nowMs),
    on: (nowMs: number) => deferral.isOn(nowMs),
    held: (nowMs: number) => deferral.heldForMs(nowMs),
    mayTry: (nowMs: number) => deferral.mayTry(nowMs),
    begin: (nowMs: number) => deferral.beginTrial(nowMs),
    end: () => deferral.endTrial(),
    forgiven: (nowMs: number) => deferral.isForgiven(nowMs),
  };
}

function ejected(): Steps {
  const ejection = new Ejection();
  return {
    failed: (sign: FailureSign, sentAtMs: number, nowMs: number, othersShare?: number) =>
      ejection.failed(sign, sentAtMs, nowMs, othersShare),
    /** Asks so many reads, of which every n-th fails, until the node is out. */
    ask: (reads: number, nth: number, othersShare: number) => {
      for (let read = 1; read <= reads && !ejection.isOut; read += 1) {
        if (read % nth === 0) ejection.failed('error', read, read, othersShare);
        else ejection.answered(read);
      }
      return ejection.isOut;
    },
    share: (nowMs: number) => ejection.errorShare(nowMs),
    answered: (nowMs: number) => ejection.answered(nowMs),
    unanswered: (nowMs: number) => ejection.unanswered(nowMs),
    lately: (nowMs: number) => ejection.hasAnsweredWithin(1_000, nowMs),
    out: () => ejection.isOut,
    reason: () => ejection.reason,
    total: () => ejection.isTotal,
    begin: (nowMs: number, boundMs: number) => ejection.beginTrial(nowMs, boundMs),
    end: (isAnswered: boolean, nowMs: number) => ejection.endTrial(isAnswered, nowMs),
  };
}

function silent(): Steps {
  const silence = new Silence();
  return {
    looked: (nowMs: number) => silence.looked(nowMs),
    asked: (nowMs: number) => silence.asked(nowMs),
    found: () => silence.found(),
    end: () => silence.end(),
    on: (nowMs: number) => silence.isOn(nowMs),
    quiet: (nowMs: number) => silence.quietForMs(nowMs),
    total: () => silence.isTotal,
  };
}

/** Claim and script. `refused`: sent and answered at these ms, with the wait that the node names; the pause is the result. */
const deferrals = `
a node is deferred from the first refusal on, until the pause is over | on 5 = false, mayTry 5 = true, refused 0 5 = 100, on 5 = true, on 104 = true, on 105 = false
without an answer in between the pauses double up to 30 s | refused 0 0 = 100, refused 100 100 = 200, refused 300 300 = 400, refused 700 700 = 800, refused 1500 1500 = 1600, refused 3100 3100 = 3200, refused 6300 6300 = 6400, refused 12700 12700 = 12800, refused 25500 25500 = 25600, refused 51100 51100 = 30000, refused 81100 81100 = 30000
a node that answers between its refusals is deferred for a second at most | answered 0 0, refused 0 0 = 100, answered 100 100, refused 100 100 = 200, answered 300 300, refused 300 300 = 400, answered 700 700, refused 700 700 = 800, answered 1500 1500, refused 1500 1500 = 1000, answered 2500 2500, refused 2500 2500 = 1000
requests that were sent before the pause began or during it do not double it | refused 0 10 = 100, refused 5 20 = undefined, refused 15 30 = undefined, refused 130 130 = 200
the wait that the node names counts from each refusal on | refused 0 0 1000 = 1000, refused 1000 1000 1000 = 1000, refused 2000 2000 1000 = 1000, refused 3000 3000 1000 = 1000, refused 4000 4000 1000 = 1000, refused 5000 5000 1000 = 1000
up to an hour | refused 0 0 3600000 = 3600000
an hour at most | refused 0 0 3600001 = 3600000
30 s of a proxy | proxy 0 0 3600000 = 30000
no wait is none | refused 0 0 0 = 100, refused 100 100 0 = 200, refused 300 300 0 = 400
a wait that is named during a pause begins none | refused 0 0 = 100, refused 0 50 5000 = undefined, on 5049 = true, on 5050 = false
after ten seconds without a refusal the pauses begin with the shortest again | forgiven 0 = true, refused 0 0, refused 100 100, refused 300 300 = 400, forgiven 400 = false, answered 700 750, forgiven 10749 = false, forgiven 10750 = true, refused 10749 10749 = 800, answered 11549 11550, refused 21550 21550 = 100
after a pause one request tries the node | begin 0, on 0 = false, refused 0 0, begin 50, on 99 = true, on 100 = false, begin 100, on 100 = true
without an outcome another follows after a second and the pause | refused 0 0, begin 100, on 1199 = true, on 1200 = false
the others follow an answer, unless it is to a request that was sent during the pause | refused 0 0, begin 100, answered 50 150, on 200 = true, answered 100 150, on 200 = false, begin 200, on 200 = false
a trial that is refused begins the next pause | refused 0 0, begin 100, refused 100 110 = 200, on 309 = true, on 310 = false
a long pause shrinks to a second when the node answers a request sent after its last refusal | refused 0 0, refused 100 100, refused 300 300, refused 700 700, refused 1500 1500, refused 3100 3100, refused 6300 6300, refused 12700 12700, refused 25500 25500 = 25600, answered 25499 25650, on 51099 = true, answered 25600 25650, on 26499 = true, on 26500 = false
an answer does not shorten the wait that the node names | refused 0 0 20000, answered 10 20, on 19999 = true, on 20000 = false
a trial in flight is the only one, and its refusal is no news | refused 0 0 60000, begin 1000, mayTry 50000 = false, refused 1000 1010 = undefined, end, mayTry 50000 = true
of refusals of one moment the longest wait counts; that of a later request replaces it | refused 0 10 100000, refused 5 10 1000 = undefined, refused 10 10 1000 = undefined, held 20 = 99990, refused 2000 2010 3000 = undefined, held 2010 = 3000, on 5009 = true, on 5010 = false
a refused probe prolongs the hold and leaves the gap between trials | refused 0 0 60000, refused 100 100 60000, refused 400 400 60000, refused 800 800 60000, held 800 = 60000, mayTry 999 = false, mayTry 1000 = true
a held node gets a first trial after a second; refusals double the gap up to 30 s | refused 0 0 600000, mayTry 999 = false, mayTry 1000 = true, begin 1000 = true, end, refused 1000 1010, mayTry 3009 = false, mayTry 3010 = true, begin 3010 = true, end, refused 3010 3020, mayTry 7019 = false, mayTry 7020 = true, begin 7020 = true, end, refused 7020 7030, mayTry 15029 = false, mayTry 15030 = true, begin 15030 = true, end, refused 15030 15040, mayTry 31039 = false, mayTry 31040 = true, begin 31040 = true, end, refused 31040 31050, mayTry 61049 = false, mayTry 61050 = true, begin 61050 = true, end, refused 61050 61060, mayTry 91059 = false, mayTry 91060 = true, held 130000 = 470000
answers halve the gap between trials, and one at a time is the most | refused 0 0 60000, begin 1000 = true, mayTry 1009 = false, end, answered 1000 1010, mayTry 1509 = false, mayTry 1510 = true, begin 1510 = true, end, answered 1510 1520, mayTry 1769 = false, mayTry 1770 = true, begin 1770 = true, end, answered 1770 1780, mayTry 1904 = false, mayTry 1905 = true, begin 1905 = true, mayTry 59999 = false
the end of the wait ends the hold, and gaps of the next one go on growing | refused 0 0 5000, begin 1000, end, refused 1000 1010, begin 3010, end, refused 3010 3020, held 4999 = 1, held 5000 = 0, mayTry 5000 = true, begin 5000 = false, refused 6000 6000 60000, mayTry 13999 = false, mayTry 14000 = true
`;

/** Claim and script. `failed`: sent and failed at these ms; the pause is the result. `begin`: a trial and its bound. */
const ejections = `
two time-outs in a row eject a node | total = false, failed timeout 1 2 = undefined, out = false, failed timeout 2 3 = 1000, out = true, reason = timeout, total = false
five errors | 4x failed error 4 5 = undefined, out = false, failed error 5 6 = 1000, out = true, reason = error, total = true
five reads that another answers first | 4x failed outpaced 4 5 = undefined, out = false, failed outpaced 5 6 = 1000, reason = outpaced, total = false
five refusals | 4x failed refused 4 5 = undefined, out = false, failed refused 5 6 = 1000, reason = refused, total = true
an answer between two time-outs begins the row anew | failed timeout 1 2, answered 3, failed timeout 1001 1002, answered 1003, failed timeout 2001 2002, out = false
between errors | 2x failed error 1 2, answered 3, 2x failed error 1001 1002, answered 1003, 2x failed error 2001 2002, out = false
between reads that another answers first | 2x failed outpaced 1 2, answered 3, 2x failed outpaced 1001 1002, answered 1003, 2x failed outpaced 2001 2002, out = false
a time-out of a read that was sent before a later answer came is slowness, not silence | answered 100, failed timeout 0 5000 = undefined, answered 5100, failed timeout 5000 10000 = undefined, answered 10100, failed timeout 10000 15000 = undefined
such time-outs are no row, and errors are | answered 100, failed timeout 50 200 = undefined, failed timeout 99 200 = undefined, 2x failed timeout 100 200 = undefined, 4x failed error 50 200 = undefined, failed error 50 200 = 1000
a node has answered lately until a read is left unanswered | lately 0 = false, answered 100, lately 1100 = true, lately 1101 = false, unanswered 100, lately 100 = true, unanswered 101, lately 101 = false, answered 102, lately 102 = true
a node that is out is tried after its pause, once at a time | failed timeout 0 5000, failed timeout 1 5000 = 1000, begin 5999 5000 = false, begin 6000 5000 = true, failed timeout 6001 7000 = undefined, begin 11999 5000 = false, end false 11000 = 2000, begin 13000 5000 = true, end true 13001 = undefined, out = false
failures of reads sent before the return of a node do not count | 2x failed timeout 0 5000, begin 6000 1000, end true 6001, 50x failed timeout 4000 9000 = undefined
an answer to a real read ends time-outs at once | 2x failed timeout 0 1000, answered 1100 = true, out = false, answered 1200 = false
a share of errors puts a node out when the others do better: ten errors | ask 45 5 0 = false, ask 5 5 0 = true, reason = error share, total = false
a tenth of its reads | ask 99 10 0 = false, failed error 100 100 = 1000, reason = error share
less than a tenth does not | ask 220 11 0 = false
nor does a share below twice that of the others | ask 49 5 0, failed error 50 50 0.101 = undefined
and one of twice theirs does | ask 49 5 0, failed error 50 50 0.1 = 1000
nor one as large as theirs, however many reads it is of | ask 4000 5 0.15 = false
its share counts errors alone, from ten reads on | 4x failed error 0 1 1, 4x failed outpaced 0 1 1, 5x answered 1, share 1 = 0, answered 1, share 1 = 0.4
a trial that nobody has begun changes nothing | ask 10 5 1, end true 10 = undefined, share 10 = 0.2
time-outs never eject a node for its share | ask 50 5 1, failed timeout 50 50 = undefined, out = false
a failed trial keeps the share of errors | ask 50 5 0, end false 60 = 2000, share 60 = 0.2
an answer that ends an ejection clears it | ask 50 5 1, failed timeout 51 60, failed timeout 52 60 = 1000, reason = timeout, answered 70 = true, 10x answered 80, share 80 = 0
a node with occasional errors must pass three trials in a row, and begins with a clean sheet | ask 50 5 0 = true, begin 2000 100 = true, end true 2000 = 0, begin 2000 100 = true, end false 2000 = 2000, begin 4000 100 = true, end true 4000 = 0, begin 4000 100 = true, end true 4000 = 0, begin 4000 100 = true, end true 4000 = undefined, share 4000 = 0
its next pause is longer, until it has stayed in for a minute | ask 50 5 0, end false 2000, 3x end true 4000, 4x failed error 4001 4001, failed error 4001 4001 = 4000, end true 9000 = undefined, 4x failed error 68999 68999, failed error 68999 68999 = 8000, end true 80000 = undefined, 4x failed error 140000 140000, failed error 140000 140000 = 1000
`;

/** Claim and script. */
const silences = `
a node is silent half a second after the first look that nothing was answered since | on 1000000000 = false, looked 100, looked 500, on 599 = false, on 600 = true, end, on 1000000000 = false
three checks in a row that find it silent show that it hangs | found, total = false, found, total = false, found, total = true, end, total = false
it is quiet since the first request of a client that nothing was answered after | quiet 1000000000 = -Infinity, asked 100, asked 500, quiet 600 = 500, end, quiet 600 = -Infinity
`;

for (const [table, make] of [
  [deferrals, deferred],
  [ejections, ejected],
  [silences, silent],
] as const) {
  for (const [claim, script] of scriptsIn(table)) test(claim, () => runScript(make(), script));
}
