/**
 * A node, or many, that cost next to nothing: nginx that answers from its config, with ledger headers, each account and
 * version with a body of its own. A view returns the version it is called at, all else an empty list. Its ledger stands
 * still.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { ledgerHeaders } from '../../test/support/ledger-info.ts';
import { freePort } from '../../test/support/free-port.ts';
import { startNginx } from './nginx.ts';
import type { ServerProcess } from './process-under-test.ts';

export interface CheapNode {
  /** With the base path; the first is the one of `server`. */
  readonly urls: readonly string[];
  readonly server: ServerProcess;
  /** Reads that came so far, others than looks at the ledger. */
  reads(): number;
}

export interface CheapNodeSettings {
  readonly cpu: number | string;
  /** The lower edge that it reports. Default 0. */
  readonly oldest?: bigint;
  /** It refuses versions of ten digits that begin with 1 as pruned, whatever edge it reports. */
  readonly refusesBelow2e9?: boolean;
  /** So many nodes in one process. */
  readonly count?: number;
}

const head = 9_000_000_000n;
/** Sizes of bodies in bytes, asked for by the name of a struct. */
const sizes = [400, 4_000, 60_000] as const;
export type BodyBytes = (typeof sizes)[number];

/** `tag` as clients write it in a path. */
export function readPath(bytes: BodyBytes, version: string, tag = `0x1::bench::Body${bytes}`): string {
  return `/v1/accounts/%A/resource/${encodeURIComponent(tag)}?ledger_version=${version}`;
}

/** The same account at versions that are never asked twice: `%V` is nine digits, of which `first` is the one before. */
export function newVersionsPath(bytes: BodyBytes, account: string, first = 2): string {
  return readPath(bytes, `${first}%V`).replace('%A', account);
}

export async function startCheapNode(settings: CheapNodeSettings): Promise<CheapNode> {
  const { cpu, count = 1 } = settings;
  const ports = await Promise.all(Array.from({ length: count }, freePort));
  const [port = 0] = ports;
  let log = '';
  const http = ({ folder }: { readonly folder: string }): string => {
    log = join(folder, 'reads.log');
    return httpOf(settings, ports, log);
  };
  const server = await startNginx({ name: 'upstream alone', cpu, port, http });
  // A line is a mark and its end.
  const reads = (): number => statSync(log).size / 2;
  return { urls: ports.map((one) => `http://127.0.0.1:${one}/v1`), server, reads };
}

function httpOf({ oldest = 0n, refusesBelow2e9 = false }: CheapNodeSettings, ports: readonly number[], log: string) {
  const ledger = { version: head, oldest, chainId: 1, timestampUsec: BigInt(Date.now()) * 1000n };
  const headers = Object.entries(ledgerHeaders(ledger)).map(([name, text]) => `add_header ${name} ${text} always;`);
  return `default_type application/json; log_format mark r; open_log_file_cache max=10;
  server {
    ${ports.map((port) => `listen 127.0.0.1:${port} backlog=4096;`).join(' ')}
    ${headers.join(' ')}
    set $padding '${padding}';
    location ~ ^/v1/?$ { return 200 '{"chain_id":1,"ledger_version":"${head}","oldest_ledger_version":"${oldest}"}'; }
    location = /v1/transactions/by_version/0 { return 200 '{"type":"genesis_transaction","hash":"0x${'5a'.repeat(32)}","version":"0"}'; }
    location = /v1/view { access_log ${log} mark; return 200 '["$arg_ledger_version"]'; }
    location /v1/ { access_log ${log} mark; return 200 '[]'; }
    ${sizes.map((bytes) => locationOf(bytes, refusesBelow2e9, log)).join('\n    ')}
  }`;
}

/** nginx takes no longer words in its config; what is longer is put together from this one. */
const padding = '0'.repeat(4_000);

function locationOf(bytes: BodyBytes, refusesBelow2e9: boolean, log: string): string {
  const refusal =
    '{"message":"Ledger version($arg_ledger_version) has been pruned","error_code":"version_pruned","vm_error_code":null}';
  const refuse = refusesBelow2e9 ? `if ($arg_ledger_version ~ "^1[0-9]{9}$") { return 410 '${refusal}'; }` : '';
  const start = '{"type":"$tag","data":{"account":"$account","version":"$arg_ledger_version","padding":"';
  const end = '"}}';
  // The tag of `readPath`, the longest account, and a version of ten digits.
  const named = `0x1::bench::Body${bytes}`.length + 66 + 10;
  const taken = start.length - '$tag$account$arg_ledger_version'.length + named + end.length;
  const left = bytes - taken;
  const filled = '${padding}'.repeat(Math.floor(left / padding.length)) + '0'.repeat(left % padding.length);
  return `location ~ "^/v1/accounts/(?<account>0x[0-9a-f]+)/resource/(?<tag>.*(?:Body|Padded)${bytes}(?![0-9]).*)" {
      access_log ${log} mark; ${refuse} return 200 '${start}${filled}${end}';
    }`;
}
