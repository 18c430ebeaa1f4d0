/**
 * A node whose resources change at known times, as a process: `node bench/support/changing-node.ts CHANGING`. Each second
 * the first CHANGING accounts change once, one after the other, each at a version of its own. A body names the time of its
 * last change, in ms since 1970. `GET /control`: reads so far.
 */
import { createServer } from 'node:http';
import { answer, ledgerAt, listen } from './node-process.ts';

const changing = Number(process.argv[2] ?? 10);
const everyMs = 1_000 / changing;
const first = 1_000_000;
const startMs = Date.now();
let reads = 0;

/** The newest version: the time has as many steps as there are changes. */
function head(): number {
  return first + Math.floor((Date.now() - startMs) / everyMs);
}

/** The time of the last change of an account at a version. */
function changedMs(account: number, version: number): number {
  if (account >= changing) return startMs;
  const steps = version - first;
  return startMs + (steps - ((((steps - account) % changing) + changing) % changing)) * everyMs;
}

const server = createServer(({ url = '' }, response) => {
  if (url === '/control') return void response.end(JSON.stringify({ reads }));
  const ledger = ledgerAt(BigInt(head()));
  if (url === '/v1' || url === '/v1/') {
    return answer(response, 200, `{"chain_id":1,"ledger_version":"${head()}","oldest_ledger_version":"0"}`, ledger);
  }
  const [, account, version = head()] = /^\/v1\/accounts\/0x5a0*(\d+)\/.*?(?:ledger_version=(\d+))?$/.exec(url) ?? [];
  if (account === undefined) {
    return answer(response, 404, '{"message":"","error_code":"transaction_not_found","vm_error_code":null}', ledger);
  }
  reads += 1;
  const data = {
    account,
    changed_ms: changedMs(Number(account), Number(version)).toFixed(3),
    padding: '0'.repeat(200),
  };
  return answer(response, 200, JSON.stringify({ type: '0x1::bench::Watched', data }), ledger);
});
listen(server, '/v1');
