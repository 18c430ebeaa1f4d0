/** The shapes of requests that clients send, each as a list of whole requests that a cache answers from memory. */
import { clientHeaders, type WholeRequest } from './ask-all.ts';
import { readPath } from './cheap-node.ts';
import type { Titled } from './contest.ts';
import { accountAt } from './load.ts';

export interface Shape extends Titled {
  readonly reads: 'get' | 'view' | 'mixed';
  /** Requests carry a key, and the server counts them by its plan. */
  readonly hasKey?: boolean;
  /** In place of the key. */
  readonly authorization?: string;
  readonly hasTls?: boolean;
  /** GETs by h2load; implies TLS. */
  readonly isHttp2?: boolean;
}

export const shapes: readonly Shape[] = [
  { title: 'GET', reads: 'get' },
  { title: 'view', reads: 'view' },
  { title: 'GET and view', reads: 'mixed' },
  { title: 'GET, key', reads: 'get', hasKey: true },
  { title: 'GET and view, key', reads: 'mixed', hasKey: true },
  { title: 'GET, TLS', reads: 'get', hasTls: true },
  { title: 'GET and view, key, TLS', reads: 'mixed', hasKey: true, hasTls: true },
  { title: 'GET, HTTP/2', reads: 'get', hasTls: true, isHttp2: true },
];

/** Different requests of a shape: half of each kind where they mix. */
const count = 2_000;
/** Views are called at so many versions, so that many bodies share a target. */
const viewVersions = 50;
const firstVersion = 2_400_000_000;

/** 400 B of one account each. */
function getAt(index: number): WholeRequest {
  return { method: 'GET', path: readPath(400, String(firstVersion)).replace('%A', accountAt(index)) };
}

/** A balance of one account each. */
function viewAt(index: number): WholeRequest {
  const body = {
    function: '0x1::coin::balance',
    type_arguments: ['0x1::bench::Coin'],
    arguments: [accountAt(index)],
  };
  const path = `/v1/view?ledger_version=${firstVersion + (index % viewVersions)}`;
  return { method: 'POST', path, body: JSON.stringify(body) };
}

export function requestsOf({ reads }: Pick<Shape, 'reads'>): readonly WholeRequest[] {
  return Array.from({ length: count }, (_, index) => {
    const isView = reads === 'view' || (reads === 'mixed' && index % 2 === 1);
    return isView ? viewAt(index) : getAt(index);
  });
}

/** The bytes of a request in HTTP/1.1, as a client sends them on a connection that it keeps. */
export function wireText({ method, path, body }: WholeRequest, host: string, authorization?: string): string {
  const headers = {
    host,
    ...clientHeaders,
    ...(authorization === undefined ? {} : { authorization }),
    ...(body === undefined
      ? {}
      : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`;
}

/** Between two requests in the file of requests.lua; no request contains it. */
export const endOfRequest = '\0';
