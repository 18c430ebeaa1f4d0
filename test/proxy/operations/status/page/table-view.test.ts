import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressOf, tableViewOf, nodesOf, sortedBy } from '../../../../../src/proxy/operations/status/page/fleet.ts';
import { statusPage } from '../../../../../src/proxy/operations/status/page/page.ts';
import { factsFrom, nodeStatus } from '../../../../support/process-status.ts';

const facts = factsFrom({
  nodes: [
    nodeStatus({ name: 'full-a', head: '900', oldest: '500', inFlight: 1 }),
    nodeStatus({
      name: 'full-b',
      head: '1000',
      oldest: '400',
      inFlight: 7,
      ejected: [{ readClass: 'view', reason: 'error' }],
    }),
    nodeStatus({ name: 'Archive', tier: 'archival', head: '1000', oldest: '0', inFlight: 3 }),
    nodeStatus({ name: 'full-c', state: 'down', reason: 'time-out', head: undefined, oldest: undefined, inFlight: 0 }),
  ],
});
const namesBy = (query: object) => nodesOf(facts.nodes, tableViewOf(query)).map(({ name }) => name);

test('without an order problems come first, then the order of the config', () => {
  assert.deepEqual(namesBy({}), ['full-c', 'full-b', 'full-a', 'Archive']);
});

test('each column has an order, and its reverse', () => {
  const orders = {
    node: ['Archive', 'full-a', 'full-b', 'full-c'],
    head: ['full-c', 'full-a', 'full-b', 'Archive'],
    oldest: ['full-c', 'Archive', 'full-b', 'full-a'],
    load: ['full-b', 'Archive', 'full-a', 'full-c'],
  };
  for (const [sort, names] of Object.entries(orders)) assert.deepEqual(namesBy({ sort }), names, sort);
  assert.deepEqual(namesBy({ sort: '-load' }), orders.load.toReversed());
});

test('a filter matches a part of the name, the tier or the state', () => {
  assert.deepEqual(namesBy({ filter: 'ARCH' }), ['Archive']);
  assert.deepEqual(namesBy({ filter: ' time-out ' }), ['full-c']);
  assert.deepEqual(namesBy({ filter: 'passed' }), ['full-b']);
  assert.deepEqual(namesBy({ filter: 'nothing' }), []);
});

test('odd queries are none', () => {
  const usual = tableViewOf({});
  for (const query of [{ sort: 'constructor' }, { sort: ['head', 'node'] }, { filter: ['a', 'b'] }, { other: 'x' }]) {
    assert.deepEqual(tableViewOf(query), usual);
  }
  assert.equal(tableViewOf({ filter: 'x'.repeat(1_000) }).filter.length, 100);
});

test('addresses hold the view, and a second click reverses the order', () => {
  const view = tableViewOf({ sort: 'head', filter: 'a&b=c' });
  assert.equal(addressOf(view), '?sort=head&filter=a%26b%3Dc');
  assert.equal(sortedBy('head', view), '?sort=-head&filter=a%26b%3Dc');
  assert.equal(sortedBy('load', view), '?sort=load&filter=a%26b%3Dc');
  assert.equal(sortedBy('head', tableViewOf({ sort: '-head', all: '1' })), '?sort=head&all=1');
});

test('the table of a large fleet has 30 rows, and all on demand; the picture has 12', () => {
  const nodes = Array.from({ length: 100 }, (_, index) => nodeStatus({ name: `node-${index}` }));
  const large = factsFrom({ nodes });
  const rows = (query: object) =>
    statusPage(large, tableViewOf(query)).match(/<th scope="row" role="rowheader">/g)?.length;
  assert.deepEqual([rows({}), rows({ all: '1' }), rows({ filter: 'node-7' })], [30, 100, 11]);
  const page = statusPage(large);
  assert.match(page, /href="\?all=1">Show all 100 nodes</);
  assert.equal(page.match(/class="track" x="0"/g)?.length, 12);
});

test('a filter from outside is text on the page', () => {
  const nodes = Array.from({ length: 10 }, (_, index) => nodeStatus({ name: `node-${index}` }));
  const page = statusPage(factsFrom({ nodes }), tableViewOf({ filter: '"><script>alert(1)</script>' }));
  assert.doesNotMatch(page, /<script>alert/);
});
