import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FunctionRights } from '../../../src/access/keys/function-rights.ts';

const rightsOf = (allow?: readonly string[], deny?: readonly string[]) => FunctionRights.of({ allow, deny });

/** The functions that the rights admit. */
function admitted(rights: FunctionRights | undefined): readonly string[] {
  const functions = ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner', '0xa::coin::balance'];
  return functions.filter((id) => rights?.admits(id) === true);
}

test('lists have functions, modules and addresses; deny precedes allow', () => {
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'])), ['0x1::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*'])), ['0x1::coin::balance', '0x1::coin::supply']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'])), ['0x1::coin::balance', '0x1::coin::supply', '0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(undefined, ['0x1::*'])), ['0xa::coin::balance']);
  assert.deepEqual(admitted(rightsOf(['0x1::*'], ['0x1::coin::*'])), ['0x1::object::owner']);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::balance'], ['0x1::*'])), []);
  assert.deepEqual(admitted(rightsOf(['0x1::coin::*', '0xa::*'], ['0x1::coin::balance', '0x1::object::owner'])), [
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
});

test('addresses of lists are compared in one spelling, names to the letter', () => {
  const long = `0x${'0'.repeat(63)}A`;
  assert.deepEqual(admitted(rightsOf([`${long}::*`, '0x01::coin::supply', '0X1::coin::balance'.toLowerCase()])), [
    '0x1::coin::balance',
    '0x1::coin::supply',
    '0xa::coin::balance',
  ]);
  assert.deepEqual(admitted(rightsOf(['0x1::Coin::balance', '0x1::coin::Balance', '0x1::coi::*', '0x11::*'])), []);
});

test('a function that is not certain is refused by any list, and without a list there are no rights to check', () => {
  assert.equal(rightsOf(undefined, ['0x2::*'])?.admits(undefined), false);
  assert.equal(rightsOf(['0x1::*'])?.admits(undefined), false);
  assert.equal(rightsOf(), undefined);
  assert.equal(FunctionRights.of(undefined), undefined);
});
