/**
 * The names under which kept and shared reads are found: one for all spellings of a request, another for each request
 * next to it, whatever its kind. `LEDGERGATE_SPELLINGS`: the cases of each kind.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cacheKey, keyText } from '../../../src/cache/key.ts';
import { GatewayError } from '../../../src/ledger/errors.ts';
import { isOfState } from '../../../src/proxy/reads/policy.ts';
import { Router } from '../../../src/proxy/routes/router.ts';
import { fc } from '../../support/fast-check.ts';
import {
  drawRequest,
  keptKinds,
  meaningOf,
  neighbourOf,
  spellRequest,
  type SpelledRequest,
} from '../../support/kept-spellings.ts';
import { Draw } from '../../support/spellings.ts';

const runs = { numRuns: Number(process.env['LEDGERGATE_SPELLINGS'] ?? 500) };
const router = new Router('/v1');
const seed = fc.noShrink(fc.integer());

interface Named {
  /** Name in the cache or among the shares. */
  readonly name: string;
  /** The request to the node. */
  readonly wire: string;
}

/** `left`: a node answers the request, and nothing is kept. `refused`: no node gets it. */
function nameOf({ method, target, accept, body }: SpelledRequest): Named | 'left' | 'refused' {
  const match = router.match(method, target);
  if (match.route.parse === undefined && match.route.posted === undefined) return 'left';
  try {
    const contentType = 'application/json';
    const read =
      method === 'GET'
        ? match.parse(accept)
        : match.parseBody({ target, accept, contentType, body: Buffer.from(body) });
    if (read === undefined) return 'left';
    const { wire } = read;
    const sent = `${wire.method} ${wire.path} ${JSON.stringify(wire.headers)} ${String(wire.body)}`;
    if ('shared' in read) return { name: `shared|${read.form}|${wire.path}`, wire: sent };
    const { operation, subject, version, form } = read;
    if (version === undefined && isOfState(operation)) return 'left';
    return { name: keyText(cacheKey({ chainId: 4, operation, subject, version, form })), wire: sent };
  } catch (error) {
    if (error instanceof GatewayError) return 'refused';
    throw error;
  }
}

for (const kind of keptKinds) {
  test(`${kind}: all spellings of a request have one name and one request to the node, its neighbours others`, () => {
    let spelledOtherwise = 0;
    let neighbours = 0;
    fc.assert(
      fc.property(seed, (seed) => {
        const draw = new Draw(seed);
        const request = drawRequest(draw, kind);
        const [one, other] = [spellRequest(draw, request), spellRequest(draw, request)];
        const named = nameOf(one);
        assert.ok(typeof named === 'object', `${one.target} ${one.body}: ${JSON.stringify(named)}`);
        assert.deepEqual(nameOf(other), named, `${one.target} ${other.target} ${one.body} ${other.body}`);
        if (other.target !== one.target || other.body !== one.body) spelledOtherwise += 1;

        const next = neighbourOf(draw, request);
        if (next === undefined || meaningOf(next) === meaningOf(request)) return;
        neighbours += 1;
        const spelled = spellRequest(draw, next);
        const found = nameOf(spelled);
        assert.ok(typeof found === 'string' || found.name !== named.name, `${one.target} ${spelled.target}`);
      }),
      runs,
    );
    assert.ok(spelledOtherwise > runs.numRuns / 2, `${spelledOtherwise} pairs of spellings`);
    assert.ok(neighbours > runs.numRuns / 4, `${neighbours} neighbours`);
  });
}

test('a parameter that the gateway does not know, or a second one of a name, leaves a request to nodes', () => {
  for (const kind of keptKinds.filter((name) => !name.endsWith('lenient'))) {
    fc.assert(
      fc.property(seed, (seed) => {
        const draw = new Draw(seed);
        const request = drawRequest(draw, kind);
        const { target, ...rest } = spellRequest(draw, request);
        const known = request.query[0]?.[0];
        const repeated = known === undefined ? 'b=1' : `${known}=1`;
        const more = draw.pick('b=', 'Limit=1', 'ledger%5Fversions=1', 'start%20=1', repeated);
        const asked = { ...rest, target: `${target}${target.includes('?') ? '&' : '?'}${more}` };
        assert.ok(typeof nameOf(asked) === 'string', asked.target);
      }),
      { numRuns: Math.ceil(runs.numRuns / 10) },
    );
  }
});

test('a balance is found under one name with the repetitions of the public SDK, and left to nodes with others', () => {
  const path = '/v1/accounts/0x0a/balance/0x1::a::B?ledger_version=5';
  const asked = (more: string) => nameOf({ method: 'GET', target: path + more, accept: undefined, body: '' });
  const plain = asked('');
  assert.ok(typeof plain === 'object');
  assert.deepEqual(asked('&accountAddress=0x0a&asset=0x1%3A%3Aa%3A%3AB'), plain);
  for (const more of ['&accountAddress=0x0b', '&asset=0x1::a::C', '&asset=', '&asset=0x1::a::B&asset=0x1::a::B']) {
    assert.equal(asked(more), 'left', more);
  }
});

test('no two requests of any kinds share a name, unless they mean the same', () => {
  const meanings = new Map<string, string>();
  let again = 0;
  fc.assert(
    fc.property(fc.constantFrom(...keptKinds), seed, (kind, seed) => {
      // A few seeds, so that requests come again and are close to each other.
      const draw = new Draw(seed % 500);
      const request = drawRequest(draw, kind);
      const named = nameOf(spellRequest(new Draw(seed), request));
      assert.ok(typeof named === 'object');
      // The wait for a transaction is for the same answer as its look-up.
      const meaning = meaningOf(request).replace('wait_by_hash', 'by_hash');
      const known = meanings.get(named.name);
      if (known !== undefined) again += 1;
      assert.equal(known ?? meaning, meaning);
      meanings.set(named.name, meaning);
    }),
    { numRuns: runs.numRuns * 10 },
  );
  assert.ok(again > 100, `${again} requests came again`);
});
