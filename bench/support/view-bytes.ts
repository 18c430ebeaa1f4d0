/** A call of the sample node's `echo` view in BCS, as the public SDK sends calls by default (protocol 6). */
const address = Buffer.from('1'.padStart(64, '0'), 'hex');
const noTypeArguments = Buffer.from([0]);
const oneArgument = Buffer.from([1]);

/** `argument`: a text below 126 bytes, so that each length is one byte. */
export function viewBody(argument: string): Uint8Array {
  const bytes = textBytes(argument);
  const head = [address, textBytes('ledgergate_sample'), textBytes('echo'), noTypeArguments, oneArgument];
  return Buffer.concat([...head, Buffer.from([bytes.length]), bytes]);
}

function textBytes(text: string): Buffer {
  return Buffer.concat([Buffer.from([text.length]), Buffer.from(text)]);
}
