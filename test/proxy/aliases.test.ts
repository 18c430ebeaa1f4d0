import assert from 'node:assert/strict';
import { test } from 'node:test';
import { aliasBytes, Aliases, ownCopy } from '../../src/proxy/aliases.ts';
import { resourceRead } from '../../src/proxy/resource.ts';

const tag = '0x1::account::Account';

function target(account: number): string {
  return `/accounts/0x${account.toString(16)}/resource/${tag}?ledger_version=5`;
}

/** What the front does with a read that memory has the answer of. */
function ask(aliases: Aliases, account: number): 'known' | 'learnt' | 'read' {
  if (aliases.find(target(account), 'json') !== undefined) return 'known';
  if (!aliases.isWorthLearning()) return 'read';
  const own = ownCopy(target(account));
  const read = resourceRead({ address: `0x${account.toString(16)}`, tag }, { target: own, accept: undefined });
  aliases.learn(own, { route: 'resource', read });
  return 'learnt';
}

test('while there is room every target is learnt, and beyond that one in sixteen', () => {
  const aliases = new Aliases();
  const fits = Math.floor(aliasBytes / 2 / 1_300);
  const first = Array.from({ length: fits }, (_, account) => ask(aliases, account));
  assert.deepEqual(new Set(first), new Set(['learnt']));
  let next = fits;
  while (ask(aliases, next) === 'learnt') next += 1;
  assert.ok(next < 2 * fits, `${next} targets in ${aliasBytes} bytes`);
  const others = Array.from({ length: 1_600 }, () => ask(aliases, (next += 1)));
  assert.equal(others.filter((what) => what === 'learnt').length, 100);
});

test('of many more targets than have room those that come often are known soon, and stay so', () => {
  const aliases = new Aliases();
  let cold = 1_000_000;
  const often = Array.from({ length: 100 }, (_, account) => account);
  const fill = (): void => {
    for (let count = 0; count < 40_000; count += 1) ask(aliases, (cold += 1));
  };
  fill();
  for (let round = 0; round < 200; round += 1) for (const account of often) ask(aliases, account);
  for (let round = 0; round < 50; round += 1) {
    for (let count = 0; count < 2_000; count += 1) ask(aliases, (cold += 1));
    for (const account of often) assert.equal(ask(aliases, account), 'known');
  }
});
