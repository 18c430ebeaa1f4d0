// Inputs made to be slow: what takes a parser n steps must not take it n squared. Sixteen times the input may take some
// sixteen times as long; squared it would be two hundred and fifty-six times.
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { clientAddress, countedNetwork, Networks } from '../../src/access/keys/client-address.ts';
import { holdsToken, isToken } from '../../src/access/keys/jwt-tokens.ts';
import { holdsKey, Principals } from '../../src/access/keys/principals.ts';
import { parseViewBody } from '../../src/proxy/routes/canonical-body.ts';
import { compileModule } from '../../src/encode/abi.ts';
import { findAbiType } from '../../src/encode/abi-type.ts';
import { Steps } from '../../src/encode/outcome.ts';
import { Address, FunctionId, isIdentifier, TypeTag } from '../../src/ledger/type-tag.ts';
import { familyText } from '../../src/ledger/ledger-headers.ts';
import { JsonSkim } from '../../src/ledger/json-skim.ts';
import { JsonValue } from '../../src/ledger/json-value.ts';
import { findU64 } from '../../src/ledger/version.ts';
import { readKeysFile } from '../../src/access/keys/file-keys.ts';
import { HeaderBlocks, readHead } from '../../src/proxy/http/fast-path/request-head.ts';
import { Tracer } from '../../src/metrics/trace/span.ts';
import { findScope } from '../../src/cache/purge.ts';
import { findOperator } from '../../src/proxy/operations/operations-access.ts';
import { answerForm, chooseCoding, matchesTag } from '../../src/proxy/http/negotiate.ts';
import { requestHeaders } from '../../src/proxy/routes/pass-through.ts';
import { Router } from '../../src/proxy/routes/router.ts';
import { parseDemand } from '../../src/proxy/reads/demand.ts';
import { isAuthority, originForm } from '../../src/proxy/http/target.ts';
import { versionParameter } from '../../src/proxy/routes/parse-read.ts';
import { encodeBy } from '../encode/requests.ts';
import { cpuMs } from '../support/cpu-time.ts';

const list = (count: number, item: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => item(index)).join();
const lines = (count: number, line: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => line(index)).join('');
const view = (types: string, values: string): Buffer =>
  Buffer.from(`{"function":"0x1::m::f","type_arguments":${types},"arguments":${values}}`);

const skim = (text: string): unknown => {
  const one = new JsonSkim(Buffer.from(text));
  while (!one.step(1_000));
  return one.facts;
};

const router = new Router('/v1');
const operation = (target: string): string => router.match('POST', target).operation;
const route = (target: string): unknown => router.parse({ target });
const passedPath = (target: string): string => router.match('GET', target).passedPath;
const need = (target: string): unknown => router.match('GET', target).need;
const readBlock = (lines: string): unknown => readHead(`GET /v1 HTTP/1.1\r\n${lines}\r\n`, 0, new HeaderBlocks());
const limits = { minClientStalenessMs: 100, maxClientStalenessMs: 10_000 };
const demand = (headers: IncomingHttpHeaders): unknown => parseDemand(headers, limits, 200, undefined);
const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const principals = new Principals(
  { header: 'authorization', plans: {}, anonymous: undefined, trustedProxies: [] },
  { file: false, redis: false },
);
const findPrincipal = (authorization: string): unknown => principals.find({ authorization }, undefined, 0);
const proxies = new Networks(['10.0.0.0/8', '::/0']);
const forwarded = (text: string): string => countedNetwork(clientAddress('10.0.0.1', text, proxies));
const plainKey = (at: number): string =>
  `  - name: k${at}\n    plan: a\n    sha256: "${at.toString(16).padStart(64, '0')}"\n`;
const readKeys = (text: string): unknown => readKeysFile(text, 'keys.yaml');

/** `make` makes an input of so many parts; `parts` is the smaller of the two sizes, `parse` may throw. */
const rows: readonly (readonly [
  title: string,
  parts: number,
  make: (n: number) => string,
  parse: (text: string) => unknown,
])[] = [
  ['blanks of own headers', 20_000, (n) => `a: ${' '.repeat(n)}\u00e9`, (text) => familyText.isValid(text)],
  ['own headers', 20_000, (n) => 'a: 1\t'.repeat(n), (text) => familyText.isValid(text)],
  ['zeros of a version', 20_000, (n) => `${'0'.repeat(n)}x`, findU64],
  ['zeros of an address', 20_000, (n) => `0x${'0'.repeat(n)}`, (text) => Address.find(text)],
  ['an identifier', 20_000, (n) => `${'_'.repeat(n)}!`, isIdentifier],
  ['colons of a function id', 20_000, (n) => '::'.repeat(n), (text) => FunctionId.find(text)],
  ['an open type', 1_000, (n) => 'vector<'.repeat(n), (text) => TypeTag.find(text)],
  ['arguments of a type', 1_000, (n) => `0x1::a::B<${list(n, () => 'u8')}`, (text) => TypeTag.find(text)],
  ['blanks of a type', 20_000, (n) => `0x1${' '.repeat(n)}x`, (text) => TypeTag.find(text)],
  ['references of an ABI type', 1_000, (n) => '&'.repeat(n), (text) => findAbiType(text, new Steps())],
  [
    'arguments of an ABI type',
    1_000,
    (n) => `0x1::a::B<${list(n, () => 'T0')}`,
    (text) => findAbiType(text, new Steps()),
  ],
  ['brackets of JSON', 20_000, (n) => '['.repeat(n), (text) => JsonValue.parse(text)],
  ['members of an answer', 2_000, (n) => `{${list(n, (at) => `"version":${at}`)}}`, skim],
  ['escapes of an answer', 5_000, (n) => `"${'\\u0041'.repeat(n)}"`, skim],
  ['digits of an answer', 2_000, (n) => `[${list(n, () => '9'.repeat(20))}]`, skim],
  [
    'keys of JSON that are numbers',
    2_000,
    (n) => `{${list(n, (at) => `"${at * 16_384}":0`)}}`,
    (text) => JsonValue.canonical(JsonValue.parse(text)),
  ],
  [
    'keys of JSON that are alike',
    2_000,
    (n) => `{${list(n, (at) => `"${'a'.repeat(20)}${at}":0`)}}`,
    (text) => JsonValue.canonical(JsonValue.parse(text)),
  ],
  ['escapes of JSON', 5_000, (n) => `"${'\\u0041'.repeat(n)}"`, (text) => JsonValue.canonical(JsonValue.parse(text))],
  ['digits of JSON', 20_000, (n) => `${'1'.repeat(n)}e`, (text) => JsonValue.parse(text)],
  ['blanks of JSON', 20_000, (n) => `${' '.repeat(n)}x`, (text) => JsonValue.parse(text)],
  [
    'arguments of a view',
    80,
    (n) => `[${list(n, () => '"0x1"')}]`,
    (text) => parseViewBody('application/json', view('[]', text)),
  ],
  [
    'type arguments of a view',
    35,
    (n) => `[${list(n, () => '"vector<u8>"')}]`,
    (text) => parseViewBody('application/json', view(text, '[]')),
  ],
  ['arguments to encode', 300, (n) => `[${list(n, () => '"0x1"')}]`, (values) => encodeBy(undefined, { values })],
  [
    'functions of a module',
    500,
    (n) =>
      `{"abi":{"address":"0x1","name":"m","exposed_functions":[${list(n, (at) => `{"name":"f${at}","is_entry":true,"generic_type_params":[],"params":["u8"]}`)}],"structs":[]}}`,
    compileModule,
  ],
  ['slashes of a path', 1_000, (n) => `/v1${'/a'.repeat(n)}/..x`, passedPath],
  ['dots of a path', 2_000, (n) => `/v1/${'.'.repeat(n)}`, passedPath],
  ['percent signs of a path', 1_000, (n) => `/v1/${'%61'.repeat(n)}`, passedPath],
  ['digits of a path', 1_000, (n) => `/v1/blocks/by_height/${'1'.repeat(n)}`, need],
  ['slashes of an operation', 2_000, (n) => `/v1/view${'/'.repeat(n)}`, operation],
  ['parameters of segments', 2_000, (n) => `/v1/${';/'.repeat(n)}`, operation],
  ['dot segments of an operation', 1_000, (n) => `/v1${'/..'.repeat(n)}`, operation],
  ['percent signs encoded again', 1_000, (n) => `/v1/%${'25'.repeat(n)}z`, operation],
  ['marks behind a letter', 500, (n) => `/v1/a${'%cc%95%cc%80'.repeat(n)}`, operation],
  ['letters of another form', 500, (n) => `/v1/${'%ef%b7%ba'.repeat(n)}`, operation],
  ['a path that is not UTF-8', 1_000, (n) => `/v1/${'%ff'.repeat(n)}`, operation],
  ['parameters of a path that is passed', 500, (n) => `/v1${'/a;b'.repeat(n)}`, passedPath],
  ['an account that is passed', 1_000, (n) => `/v1/accounts/${'a'.repeat(n)}/balance/${'b'.repeat(n)}/`, need],
  ['parts of a path that is routed', 400, (n) => `/v1${'/a'.repeat(n)}`, route],
  ['a parameter of a route', 400, (n) => `/v1/accounts/0x1/resource/${'%3C'.repeat(n / 2)}`, route],
  ['parameters that are routed', 250, (n) => `/v1/accounts/0x1/module/a?${'a=b&'.repeat(n)}`, route],
  ['a type in a target', 60, (n) => `/v1/accounts/0x1/resource/${'%20:'.repeat(n)}!`, route],
  ['headers on the fast path', 3, (n) => `Host: a\r\n${lines(n, (at) => `a${at}: b\r\n`)}`, readBlock],
  ['blanks of a header on the fast path', 200, (n) => `Host: a\r\nx: a${' '.repeat(n)}\r\n`, readBlock],
  ['a head without an end', 1_000, (n) => 'a: b\r\n'.repeat(n), readBlock],
  ['names in Connection', 1_000, (n) => 'close, '.repeat(n), (text) => requestHeaders({ connection: text })],
  ['a minimum version', 2_000, (n) => `${'0'.repeat(n)}x`, (text) => demand({ 'ledgergate-min-version': text })],
  ['a staleness', 2_000, (n) => `${' '.repeat(n)}1`, (text) => demand({ 'ledgergate-max-staleness': text })],
  [
    'members of tracestate',
    2_000,
    (n) => 'a=b,'.repeat(n),
    (tracestate) => Tracer.passedOn({ traceparent, tracestate }),
  ],
  ['a parent of a trace', 2_000, (n) => '00-'.repeat(n), (text) => Tracer.passedOn({ traceparent: text })],
  ['blanks before a key', 2_000, (n) => `Bearer${' '.repeat(n)}a b`, findPrincipal],
  ['blanks behind a key', 2_000, (n) => `Bearer a${' '.repeat(n)}b`, findPrincipal],
  ['a long key', 2_000, (n) => `Bearer ${'lgk_'.repeat(n)}`, findPrincipal],
  ['keys in a target', 2_000, (n) => 'lgk_abc'.repeat(n), holdsKey],
  ['tokens in a target', 2_000, (n) => 'abcdefgh.eyJ'.repeat(n), holdsToken],
  ['a token that never begins', 2_000, (n) => `${'eyJabcde'.repeat(n)}.eyJ${'eyJabcde'.repeat(n)}`, holdsToken],
  ['a long token', 2_000, (n) => `${'a'.repeat(n)}.`.repeat(4), isToken],
  ['addresses that were forwarded', 2_000, (n) => '10.0.0.1, '.repeat(n), forwarded],
  ['blanks of an address that was forwarded', 2_000, (n) => `a,${' '.repeat(n)}`, forwarded],
  ['brackets of an address that was forwarded', 2_000, (n) => '['.repeat(n), forwarded],
  ['the port of an address that was forwarded', 2_000, (n) => `${'1.'.repeat(n)}:1`, forwarded],
  ['the zone of an address that was forwarded', 2_000, (n) => `fe80::1%${'%a'.repeat(n)}`, forwarded],
  ['keys of a file', 5, (n) => `keys:\n${lines(n, plainKey)}`, readKeys],
  ['keys of a file, one a line', 5, (n) => `keys:\n${'  - {name: a, plan: b}\n'.repeat(n)}`, readKeys],
  ['blanks in a line of keys', 1_000, (n) => `keys:\n  - name: a${' '.repeat(n)}b #\n`, readKeys],
  ['quotes in a line of keys', 1_000, (n) => `keys:\n  - name: "${'\\"'.repeat(n)}"\n`, readKeys],
  ['operations of a key', 100, (n) => `keys:\n  - name: a\n    operations: [${'a,'.repeat(n)}a]\n`, readKeys],
  ['fields that no key has', 20, (n) => `keys:\n  - name: a\n${'    x: 1\n'.repeat(n)}`, readKeys],
  ['parameters', 1_000, (n) => `/v1?${'a&'.repeat(n)}ledger_version=5`, versionParameter],
  ['versions', 500, (n) => `/v1?${'ledger_version=5&'.repeat(n)}`, versionParameter],
  ['an authority', 2_000, (n) => `http://${'a:'.repeat(n)}`, originForm],
  ['a host', 2_000, (n) => `${'1'.repeat(n)}:1:`, isAuthority],
  ['kinds of answer', 2_000, (n) => 'application/x-bcs;q=1,'.repeat(n), answerForm],
  ['codings', 1_000, (n) => `${'gzip;q=0,'.repeat(n)}${n}`, chooseCoding],
  ['parameters of a coding', 1_000, (n) => `gzip${';a=b'.repeat(n)}${n}`, chooseCoding],
  ['entity tags', 2_000, (n) => '"a", '.repeat(n), (text) => matchesTag(text, '"b"')],
  [
    'blanks of a token',
    2_000,
    (n) => `Bearer${' '.repeat(n)}a b`,
    (text) => findOperator({ token: 'a', host: '' }, { authorization: text, origin: undefined, host: '' }),
  ],
  ['the scope of a purge', 2_000, (n) => `read ${'@1'.repeat(n)}@`, findScope],
];

type Parse = (text: string) => unknown;

async function go(parse: Parse, text: string): Promise<void> {
  try {
    await parse(text);
  } catch {
    // Refusing takes time as well.
  }
}

/** The fastest of several goes, or the first within `enoughMs`: what else the machine does only adds. */
async function bestMs(parse: Parse, text: string, enoughMs = 0): Promise<number> {
  let best = Infinity;
  for (let goes = 0; goes < 5 && best > enoughMs; goes += 1) {
    const startedMs = performance.now();
    await go(parse, text);
    best = Math.min(best, performance.now() - startedMs);
  }
  return best;
}

/** What one go computes, for when the machine has added to each of them. Kernels count in steps of some milliseconds. */
async function meanCpuMs(parse: Parse, text: string): Promise<number> {
  const startedMs = cpuMs();
  let goes = 0;
  for (; goes === 0 || cpuMs() - startedMs < 60; goes += 1) await go(parse, text);
  return (cpuMs() - startedMs) / goes;
}

const factor = 16;
/** Between the factor and its square; and what is over in a fifth of a millisecond tells nothing. */
const most = 80;
const floorMs = 0.2;
const bound = (smallMs: number): number => Math.max(smallMs, floorMs) * most;

for (const [title, parts, make, parse] of rows) {
  test(`${title}: sixteen times as many take no more than some sixteen times as long`, async () => {
    const [few, many] = [make(parts), make(parts * factor)];
    let small = await bestMs(parse, few);
    let large = await bestMs(parse, many, bound(small));
    if (large > bound(small)) [small, large] = [await meanCpuMs(parse, few), await meanCpuMs(parse, many)];

    assert.ok(large <= bound(small), `${small} ms and ${large} ms`);
  });
}
