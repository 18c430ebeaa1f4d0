/** Transactions as wallets send them in JSON. */
const gas = { max_gas_amount: '2000', gas_unit_price: '100', expiration_timestamp_secs: '32425224034' };

/** A request for the signing message of a call of an entry function. */
export function encodeRequest(called: string, args: readonly unknown[] = [], types: readonly string[] = []): string {
  const payload = { type: 'entry_function_payload', function: called, type_arguments: types, arguments: args };
  return JSON.stringify({ sender: '0x1', sequence_number: '0', ...gas, payload });
}

/** A submission, signature and all. Another sender or number makes another transaction. */
export function submission({ sender = '0x1', sequenceNumber = 1 } = {}): string {
  return JSON.stringify({
    sender,
    sequence_number: String(sequenceNumber),
    ...gas,
    payload: { type: 'entry_function_payload', function: '0x1::m::f', type_arguments: [], arguments: [] },
    signature: { type: 'ed25519_signature', public_key: '0x00', signature: '0x00' },
  });
}
