/** Over HTTP/2, hits answered on their streams equal those of the compatibility layer: fields, order and bytes. */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { AccessConfig } from '../../../../src/config/config.ts';
import { until } from '../../../support/eventually.ts';
import { accessConfig, keysFile, planConfig, testKey, type KeysFile } from '../../../support/keys.ts';
import { askH2, authority } from '../../../support/tls.ts';
import { bothWays, type BothWays } from './both-ways.ts';
import { h2Answer, h2Client, h2Requests, mayBeDropped, type H2Request } from './h2-requests.ts';
import { knownTargets, streamKeys } from './streams.ts';

const count = Math.ceil(Number(process.env['LEDGERGATE_FAST_PATH_STREAMS'] ?? 600) / 10);
const first = Number(process.env['LEDGERGATE_FAST_PATH_SEED'] ?? 0);
/** Requests of one session. */
const perSession = 24;
const mostTries = 3;
/** Its plan bounds nothing. */
const filler = testKey('filler', { plan: 'filler' });
const keys = [...Object.values(streamKeys), filler];
const generous = planConfig({ requests: 1_000_000, burst: 1_000_000, concurrency: 10_000 });

test(`${count} HTTP/2 sessions get the same answers with and without the fast path`, async (t) => {
  const both = await secureWays(t);
  assert.equal(await firstDifference(t, both, false), undefined);
  const known = await both.fastPath.metric('ledgergate_fast_path_requests_total{kind="known"}');
  assert.ok(known > count, `${known} hits on streams`);
  assert.equal(await both.server.metric('ledgergate_fast_path_requests_total{kind="known"}'), 0);
});

test(`${count} HTTP/2 sessions with keys, good and bad, get the same answers with and without the fast path`, async (t) => {
  const both = await secureWays(t, { free: generous, file: keysFile(t, keys) });
  assert.equal(await firstDifference(t, both, true), undefined);
  assert.ok((await both.fastPath.metric('ledgergate_fast_path_requests_total{kind="known"}')) > count);
  const seeds = Array.from({ length: count }, (_, at) => first + at);
  const dropped = seeds.flatMap((seed) => h2Requests(seed, perSession, true)).filter(mayBeDropped);
  for (const reason of ['bad key', 'no key']) {
    const sample = `ledgergate_access_refusals_total{reason="${reason}",plan=""}`;
    const [actual, expected] = [await both.fastPath.metric(sample), await both.server.metric(sample)];
    // The server drops a stream that is reset in the turn it begins, and the fast path has decided by then.
    const most = dropped.filter(({ raw }) => reasonFor(raw) === reason).length;
    assert.ok(actual >= expected && actual - expected <= most, `${sample}: ${actual}, ${expected}, ${most} dropped`);
  }
});

// Of its own session the other streams may be lost: `OnInvalidFrame` in src/node_http2.cc makes this stream error an error of
// the session, as RFC 9113 5.4.1 allows.
test('a body beyond its content-length ends no other session, with and without the fast path', async (t) => {
  const both = await secureWays(t);
  const pseudo = [':method', 'POST', ':scheme', 'https', ':authority', 'a', ':path', '/v1/view'];
  const malformed = [...pseudo, 'content-length', '4'];
  for (const gateway of [both.fastPath, both.server]) {
    const other = h2Client(t, gateway, both.ca);
    const hit = { raw: keyedHit.raw.slice(0, 8) };
    const answered = await h2Answer(other, hit);
    const refused = await h2Answer(h2Client(t, gateway, both.ca), { raw: malformed, body: 'hello' });
    assert.match(refused, /^[12]\r\n\r\n/);
    assert.match(answered, /^0\r\n:status: 200\r\n/);
    assert.equal(await h2Answer(other, hit), answered);
  }
});

test('a key revoked between two hits of one session is refused, with and without the fast path', async (t) => {
  const file = keysFile(t, keys);
  const both = await secureWays(t, { free: generous, file });
  const sessions = [both.fastPath, both.server].map((gateway) => h2Client(t, gateway, both.ca));
  const ask = () => Promise.all(sessions.map((session) => h2Answer(session, keyedHit)));
  const [hit, expected] = await ask();
  assert.match(hit ?? '', /^0\r\n:status: 200\r\n/);
  assert.equal(hit, expected);
  file.write([streamKeys.views, filler]);
  await until(async () => (await ask()).every((answer) => answer.startsWith('0\r\n:status: 401\r\n')));
  const [refused, expectedRefusal] = await ask();
  assert.equal(refused, expectedRefusal);
});

const limited = [
  [
    'waits for its limit is answered after the wait',
    { requests: 10, burst: 1, windowMs: 1_000, waitMs: 8_000 },
    3,
    '200',
  ],
  ['is above its limit is refused', { requests: 20, burst: 20, windowMs: 3_600_000 }, 25, '429'],
] as const;

for (const [claim, bounds, count, last] of limited) {
  test(`a hit that ${claim}, with and without the fast path`, async (t) => {
    const both = await secureWays(t, { free: planConfig(bounds), file: keysFile(t, keys) });
    const sessions = [both.fastPath, both.server].map((gateway) => h2Client(t, gateway, both.ca));
    const statuses: string[] = [];
    for (let turn = 0; turn < count; turn += 1) {
      const [actual = '', expected] = await Promise.all(sessions.map((session) => h2Answer(session, keyedHit)));
      assert.equal(actual, expected);
      statuses.push(/:status: (\d+)/.exec(actual)?.[1] ?? '');
    }
    assert.deepEqual([statuses[0], statuses.at(-1)], ['200', last]);
  });
}

/** Why a request is refused by its key, if it is. */
function reasonFor(raw: readonly string[]): string {
  if (!raw.includes('authorization')) return 'no key';
  return raw.includes(`Bearer ${streamKeys.all.text}`) ? 'none' : 'bad key';
}

const keyedHit: H2Request = {
  raw: [':method', 'GET', ':scheme', 'https', ':authority', 'a', ':path', knownTargets[0] ?? ''].concat(
    'authorization',
    `Bearer ${streamKeys.all.text}`,
  ),
};

interface SecureWays extends BothWays {
  readonly ca: string;
}

/** Two gateways with TLS whose caches hold the known targets. `free`: the plan of `streamKeys`, in `file`. */
async function secureWays(
  t: TestContext,
  keyed?: { readonly free: AccessConfig['plans'][string]; readonly file: KeysFile },
): Promise<SecureWays> {
  const root = authority(t);
  const access =
    keyed &&
    accessConfig({ keys: { file: keyed.file.path, redis: false }, plans: { free: keyed.free, filler: generous } });
  const tls = { ...root.certify('node'), ca: root.ca };
  // The usual times: every request is complete, however busy the machine is.
  const both = await bothWays(t, { tls, times: {}, ...(access && { access }) });
  const headers = { authorization: `Bearer ${filler.text}` };
  for (const gateway of [both.fastPath, both.server]) {
    const session = h2Client(t, gateway, root.ca);
    const isHit = async (path: string): Promise<boolean> => {
      const answer = await askH2(session, { path, ...(access && { headers }) });
      return new Map(answer.headers).get('cache-status')?.includes('hit') === true;
    };
    // Answers with a new header are stored after a look at the ledger info.
    for (const path of knownTargets.slice(0, 4)) await until(() => isHit(path));
    session.destroy();
  }
  return { ...both, ca: root.ca };
}

async function firstDifference(t: TestContext, both: SecureWays, keyed: boolean): Promise<string | undefined> {
  for (let seed = first; seed < first + count; seed += 1) {
    let difference = await differenceOf(t, both, seed, keyed);
    // On a busy machine one of the two finds an answer too old, or its node too late: such a difference is tried again.
    for (let tries = 1; tries < mostTries && difference !== undefined; tries += 1) {
      difference = await differenceOf(t, both, seed, keyed);
    }
    if (difference !== undefined) return difference;
  }
  return undefined;
}

async function differenceOf(
  t: TestContext,
  both: SecureWays,
  seed: number,
  keyed: boolean,
): Promise<string | undefined> {
  const requests = h2Requests(seed, perSession, keyed);
  const [actual, expected] = await Promise.all([
    sessionAnswers(t, both.fastPath, both.ca, requests, seed),
    sessionAnswers(t, both.server, both.ca, requests, seed),
  ]);
  for (const [at, request] of requests.entries()) {
    if (actual[at] === expected[at]) continue;
    return `session ${seed}\n${JSON.stringify(request)}\nwith the fast path: ${actual[at]}\nwithout:        ${expected[at]}`;
  }
  return undefined;
}

/** Odd seeds send all requests at once, even ones in turn. */
async function sessionAnswers(
  t: TestContext,
  gateway: BothWays['fastPath'],
  ca: string,
  requests: readonly H2Request[],
  seed: number,
): Promise<readonly string[]> {
  const session = h2Client(t, gateway, ca);
  let answers: string[] = [];
  if (seed % 2 === 1) answers = await Promise.all(requests.map((request) => h2Answer(session, request)));
  else for (const request of requests) answers.push(await h2Answer(session, request));
  session.destroy();
  return answers;
}
