// The start and the filters of a stream of transactions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../../src/ledger/index.ts';
import { parseStream } from '../../../src/proxy/routes/push.ts';

const path = '/v1/transactions';
const transfer = {
  sender: '0xa1',
  function: '0x1::aptos_account::transfer',
  events: ['0x1::coin::WithdrawEvent', '0x1::object::Moved<0x1::coin::Coin<u8>, u64>'],
};
const checkpoint = { sender: undefined, function: undefined, events: [] };

function filterOf(query: string) {
  return parseStream(`${path}?${query}`, undefined).filter;
}

test('a stream begins at start, and behind Last-Event-ID, which is ahead of it', () => {
  const starts: readonly [query: string, id: string | undefined, cursor: bigint | undefined, isResumed: boolean][] = [
    ['', undefined, undefined, false],
    ['?start=7', undefined, 7n, false],
    ['?start=0', undefined, 0n, false],
    ['?start=7', '41', 42n, true],
    ['', '9007199254740993', 9007199254740994n, true],
    // A client whose last id was emptied by a rollback to the genesis.
    ['?start=7', '', 7n, false],
  ];
  for (const [query, id, cursor, isResumed] of starts) {
    const found = parseStream(path + query, id);
    assert.deepEqual([found.cursor, found.isResumed, found.filter], [cursor, isResumed, undefined]);
  }
});

test('malformed and unknown parts are refused', () => {
  const refused: readonly [query: string, id?: string][] = [
    ['?start=x'],
    ['?start=18446744073709551616'],
    ['?start=1&start=2'],
    ['?limit=10'],
    ['?sender=alice'],
    ['?function=transfer'],
    ['?function=0x1::*'],
    ['?function=*'],
    ['?event_type=0x1::coin'],
    ['', 'x'],
    ['', '1, 2'],
    ['', '18446744073709551615'],
  ];
  for (const [query, id] of refused) {
    assert.throws(
      () => parseStream(path + query, id),
      (error) => error instanceof GatewayError && error.status === 400 && error.code === 'invalid_input',
      `${query} ${id}`,
    );
  }
});

test('filters compare canonical spellings, and all have to pass', () => {
  const passed = [
    'sender=0x00a1',
    'sender=a1',
    'function=0x01::aptos_account::transfer',
    'function=0x1::aptos_account::*',
    'event_type=0x01::coin::WithdrawEvent',
    'event_type=0x1::object::Moved%3C0x1::coin::Coin%3Cu8%3E,u64%3E',
    'sender=0xa1&function=0x1::aptos_account::*&event_type=0x1::coin::WithdrawEvent',
  ];
  const stopped = [
    'sender=0xa2',
    'function=0x1::aptos_account::transfe',
    'function=0x1::aptos::*',
    'function=0x1::coin::*',
    'event_type=0x1::coin::DepositEvent',
    'sender=0xa1&function=0x1::coin::*',
    'sender=0xa2&event_type=0x1::coin::WithdrawEvent',
  ];
  for (const query of passed) assert.equal(filterOf(query)?.matches(transfer), true, query);
  for (const query of stopped) assert.equal(filterOf(query)?.matches(transfer), false, query);
  for (const query of [...passed, ...stopped]) assert.equal(filterOf(query)?.matches(checkpoint), false, query);
});

test('filters in two spellings have one key', () => {
  assert.equal(filterOf('sender=0x01&function=1::coin::*')?.key, filterOf('function=0x1::coin::*&sender=0x1')?.key);
  assert.notEqual(filterOf('function=0x1::coin::any')?.key, filterOf('function=0x1::coin::*')?.key);
});
