/** A submission as a wallet sends it in JSON, signature and all. Other sender or number: another transaction. */
export function submission({ sender = '0x1', sequenceNumber = 1 } = {}): string {
  return JSON.stringify({
    sender,
    sequence_number: String(sequenceNumber),
    max_gas_amount: '2000',
    gas_unit_price: '100',
    expiration_timestamp_secs: '32425224034',
    payload: { type: 'entry_function_payload', function: '0x1::m::f', type_arguments: [], arguments: [] },
    signature: { type: 'ed25519_signature', public_key: '0x00', signature: '0x00' },
  });
}
