/** Targets and headers of clients. */
import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { GatewayError } from '../../src/ledger/errors.ts';
import { parseDemand } from '../../src/proxy/reads/demand.ts';
import { requestHeaders } from '../../src/proxy/routes/pass-through.ts';
import { answerForm, chooseCoding, matchesTag } from '../../src/proxy/http/negotiate.ts';
import { Router } from '../../src/proxy/routes/router.ts';
import { faultOfHead } from '../../src/proxy/http/request-faults.ts';
import { Tracer } from '../../src/metrics/trace/span.ts';
import { isAuthority, originForm } from '../../src/proxy/http/target.ts';
import { numberParameter, versionParameter } from '../../src/proxy/routes/parse-read.ts';
import { fc } from '../support/fast-check.ts';
import { soup } from './soup.ts';
import { attempt, fuzzTarget } from './target.ts';

const isRefusal = (error: unknown): boolean => error instanceof GatewayError && error.status < 500;

const dots = '/v1 / . .. %2e %2F %5c \\ %25 %00 %0d ; %3b ? # & = // * % %c0%ae'.split(' ');
const paths = 'accounts blocks by_height transactions by_version set_failpoint 0x1 5 a : @ http://a https://'.split(
  ' ',
);
const query = 'ledger_version start 18446744073709551616 %6c + %2B'.split(' ');
const target = soup(...dots, ...paths, ...query);

/** A framework that decodes the path once. */
function decoded(target: string): string {
  const [path = ''] = target.split('?', 1);
  return (
    attempt(
      () => decodeURIComponent(path),
      (error) => error instanceof URIError,
    ) ?? path
  );
}

/** As lenient a framework as there may be. */
function lenient(text: string): string {
  return text.replace(/%([0-9a-f]{2})/gi, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

const socket = new Socket();
const limits = { minClientStalenessMs: 100, maxClientStalenessMs: 10_000 };

function messageOf(headers: Readonly<Record<string, string>>, url = '/v1'): IncomingMessage {
  const message = new IncomingMessage(socket);
  message.url = url;
  message.method = 'GET';
  message.httpVersion = '1.1';
  message.headers = { ...headers };
  message.rawHeaders = Object.entries(headers).flat();
  return message;
}

const duration = soup('0', '1', '9', '200', 'ms', 's', 'm', ' ', '.', '-', '+', 'e', '999999999');
const accept = soup(...'application/json application/x-bcs , ; q= 0.5 */* = APPLICATION/'.split(' '), ' ', '\t');
const codings = soup(...'gzip br zstd identity * , ; q= 0 1 . - Infinity NaN "'.split(' '), ' ');
const tag = soup('"', 'W/', 'x', ',', ' ', '*', '\\', 'CaALTxKNV4lQhCqYjGNm-q');
const name = soup(...'x-node- x-aptos- accept host content- length authorization - _ a connection'.split(' '), ' ');

const traceparent = soup(
  ...'00- ff- -01 -00 - 0 a A g , 0af7651916cd43dd8448eb211c80319c b7ad6b7169203331 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'.split(
    ' ',
  ),
  ' ',
  '0'.repeat(32),
);
const tracestate = soup(...'rojo = 00f067aa0ba902b7 , @ a A " é -'.split(' '), ' ', '\t', '=='.repeat(300));

export const headTargets = [
  fuzzTarget('request target', fc.tuple(target, fc.constantFrom('/v1', '')), ([text, base]) => {
    const origin = originForm(text);
    assert.equal(originForm(origin), origin);
    const router = new Router(base);
    const match = router.match('GET', origin);
    const path = attempt(() => match.passedPath, isRefusal);
    if (path === undefined) return;
    assert.match(path, /^(?:[/?][!-~]*)?$/);
    assert.equal(origin, base + path);
    assert.ok(['head', 'version', 'block'].includes(match.need.kind));
    assert.equal(match.isReadOfLatest && match.need.kind !== 'head', false);
    assert.equal(match.isIdempotent, true);
    for (const seen of [path, decoded(path), lenient(path), lenient(lenient(path))]) {
      const { pathname, host } = new URL(`/v1${seen.split('?', 1)[0]?.replaceAll('\\', '/')}`, 'http://node');
      assert.equal(host, 'node');
      assert.ok(pathname === '/v1' || pathname.startsWith('/v1/'), pathname);
    }
  }),
  fuzzTarget('query', target, (text) => {
    attempt(() => versionParameter(`/v1?${text}`), isRefusal);
    numberParameter(`/v1?${text}`, 'start');
    const other = text.replaceAll('&', '');
    if (!/ledger|%|\+|[^!-~]/.test(other)) assert.equal(versionParameter(`/v1?a=${other}&ledger_version=5`), 5n);
  }),
  fuzzTarget(
    'host',
    soup('a', '.', ':', '80', '[', ']', '::1', '@', '/', ',', ' ', '%', '-', '\\', '#', '?'),
    (text) => {
      const isTaken = faultOfHead(messageOf({ host: text })) === undefined;
      assert.equal(isTaken, isAuthority(text));
      if (isTaken) assert.doesNotMatch(text, /[\s/?#@\\,]/);
    },
  ),
  fuzzTarget('Accept', accept, (text) => assert.ok(['json', 'bcs'].includes(answerForm(text)))),
  fuzzTarget('Accept-Encoding', codings, (text) => {
    const coding = chooseCoding(text);
    assert.ok(coding === undefined || text.toLowerCase().includes(coding) || text.includes('*'));
    assert.equal(chooseCoding(text), coding);
  }),
  fuzzTarget('If-None-Match', tag, (text) => {
    if (matchesTag(text, '"CaALTxKNV4lQhCqYjGNm-q"')) assert.match(text, /CaALTxKNV4lQhCqYjGNm-q|\*/);
  }),
  fuzzTarget('Ledgergate-Max-Staleness', duration, (text) => {
    const demand = attempt(() => parseDemand({ 'ledgergate-max-staleness': text }, limits, 200, undefined), isRefusal);
    assert.ok(demand === undefined || (demand.maxStalenessMs >= 100 && demand.maxStalenessMs <= 10_000));
  }),
  fuzzTarget('Ledgergate-Min-Version', duration, (text) => {
    const demand = attempt(() => parseDemand({ 'ledgergate-min-version': text }, limits, 200, undefined), isRefusal);
    assert.ok(demand === undefined || (demand.min !== undefined && demand.min < 2n ** 64n));
  }),
  fuzzTarget('traceparent, tracestate', fc.tuple(traceparent, tracestate), ([traceparent, tracestate]) => {
    const carried = Tracer.passedOn({ traceparent, tracestate })?.headers();
    if (carried === undefined) return;
    const { traceparent: parent, tracestate: state, ...others } = carried;
    assert.equal(parent, traceparent);
    assert.match(traceparent, /^[\da-f]{2}-[\da-f]{32}-[\da-f]{16}-[\da-f]{2}$/);
    assert.doesNotMatch(traceparent, /^ff|-0{32}-|-0{16}-/);
    assert.deepEqual(others, {});
    if (state === undefined) return;
    assert.equal(state, tracestate);
    assert.match(state, /^[\t -~]{1,512}$/);
    assert.ok(
      state.split(',').every((member) => member.trim() === '' || /^[^= ]+=[^=]+$/.test(member.trim())),
      state,
    );
  }),
  fuzzTarget('headers for nodes', fc.dictionary(name, fc.string()), (headers) => {
    for (const kept of Object.keys(requestHeaders(headers))) {
      assert.match(
        kept,
        /^(?:x-(?:node|aptos)-[a-z\d-]+|accept(?:-encoding)?|content-(?:type|encoding)|user-agent|x-request-id|if-[a-z-]+)$/,
      );
    }
  }),
];
