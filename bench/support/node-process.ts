/** A made-up node, or another server, as a process of its own. */
import type { Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Dialect, type LedgerInfo } from '../../src/ledger/ledger-headers.ts';
import { ledgerInfo } from '../../test/support/ledger-info.ts';

/** The ledger of a benchmark's node, now. */
export function ledgerAt(version: bigint, oldest = 0n): LedgerInfo {
  return ledgerInfo({ version, oldest, chainId: 1, timestampUsec: BigInt(Date.now()) * 1000n });
}

/** Answers with JSON and the headers of a node's ledger. */
export function answer(response: ServerResponse, status: number, body: string, ledger: LedgerInfo): void {
  const length = String(Buffer.byteLength(body));
  const headers = new Dialect('node').list(ledger);
  response.writeHead(status, ['Content-Type', 'application/json', 'Content-Length', length, ...headers]);
  response.end(body);
}

/** Listens on loopback, and prints its address with this path; it keeps idle connections for `keepAliveMs`, or for ever. */
export function listen(server: Server, path = '', keepAliveMs = 0): void {
  server.keepAliveTimeout = keepAliveMs;
  server.listen(0, '127.0.0.1', () => {
    process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}\n`);
  });
}
