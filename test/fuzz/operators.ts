/** What operators write: config files and requests to the operations port. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '../../src/config/source/load.ts';
import { ConfigError } from '../../src/config/source/problem.ts';
import { GatewayError } from '../../src/ledger/errors.ts';
import { findOperator } from '../../src/proxy/operations/operations-access.ts';
import { keyNameOf, parseKeysRequest } from '../../src/proxy/operations/keys-admin.ts';
import { parsePurgeRequest } from '../../src/proxy/operations/process.ts';
import { AdminFault, parseExplained } from '../../src/proxy/operations/admin-request.ts';
import { Router } from '../../src/proxy/routes/router.ts';
import { fc } from '../support/fast-check.ts';
import { changed, soup } from './soup.ts';
import { attempt, fuzzTarget } from './target.ts';

const folder = mkdtempSync(join(tmpdir(), 'ledgergate-fuzz-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const file = join(folder, 'ledgergate.yaml');

const config = `listen: { host: 127.0.0.1, port: 8080 }
operations: { token: "\${TOKEN}" }
upstreams:
  - name: a
    url: http://10.0.0.1/v1
cache: { redis: { url: "redis://:secret@10.0.0.1" } }
`;
const yamlWords = [
  ...': { } [ ] *a ${ } " | > # !! 0x 1e9 ~'.split(' '),
  '- ',
  '&a ',
  '<<: ',
  "'",
  '\n',
  '  ',
  '---\n',
  '\t',
  '__proto__: ',
];
const yaml = fc.oneof(changed(fc.constant(config), ...yamlWords), soup(...yamlWords, 'upstreams', 'listen', 'a', '5s'));

const router = new Router('/v1');
const described = fc.record(
  {
    target: soup(...'/v1 /accounts /0x1 /resource /module /view :: ? ledger_version= 5 % .. < > a'.split(' ')),
    method: fc.constantFrom('GET', 'POST', 'HEAD', 'OPTIONS', 'PUT', 'TRACE', 'QUERY', 'get', '', 'CONNECT'),
    accept: soup('application/x-bcs', ',', '\n', 'a'),
    contentType: soup('application/json', ';', '\r', 'a'),
    body: soup('{', '}', '"function"', ':', '"', 'a'),
  },
  { requiredKeys: ['target'] },
);

const isFaultOfCall = (error: unknown): boolean =>
  error instanceof AdminFault && [400, 404].includes(error.status) && !/lgk_\w{16}/.test(error.message);
const isFault = (error: unknown): boolean => error instanceof AdminFault && error.status === 400;

export const operatorTargets = [
  fuzzTarget('config', yaml, (text) => {
    writeFileSync(file, text);
    try {
      assert.ok(Object.isFrozen(loadConfig({ file, env: { TOKEN: 'x'.repeat(20) } }).config));
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      assert.ok(error.problems.length > 0);
      for (const problem of error.problems) assert.doesNotMatch(ConfigError.format(problem), /x{20}/);
    }
  }),
  fuzzTarget(
    'purge',
    fc.oneof(fc.jsonValue(), fc.record({ read: described }), fc.record({ account: fc.string() })),
    (value) => {
      const request = attempt(() => parsePurgeRequest(value), isFault);
      if (request !== undefined) assert.equal(Object.keys(request).length, 1);
    },
  ),
  fuzzTarget(
    'a call about keys',
    fc.tuple(
      fc.constantFrom('list', 'create', 'change', 'revoke'),
      fc.oneof(fc.string(), fc.constant('wallet-a'), soup('lgk_', 'aaaaaaaaaaaaaaaa', '.', '-', '%', '/')),
      fc.oneof(
        fc.jsonValue(),
        fc.record({ name: soup('a', 'lgk_', 'aaaaaaaaaaaaaaaa', ' '), plan: fc.constantFrom('free', 7, null) }),
        fc.record({ plan: soup('free', '1'), expires: fc.oneof(fc.date({ noInvalidDate: true }), fc.constant(null)) }),
      ),
    ),
    ([action, name, body]) => {
      const request = attempt(() => parseKeysRequest(action, name, body), isFaultOfCall);
      // It is logged, and crosses to another process.
      if (request !== undefined) {
        assert.match(keyNameOf(request) ?? 'all', /^[A-Za-z][\w.-]{0,62}$/);
        assert.doesNotMatch(JSON.stringify(structuredClone(request)), /lgk_[\w-]{16}/);
      }
    },
  ),
  fuzzTarget(
    'query of the operations port',
    fc.oneof(fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.array(fc.string()))), described),
    (value) => {
      const request = attempt(() => parseExplained(value), isFault);
      if (request !== undefined) assert.equal(typeof request.target, 'string');
    },
  ),
  fuzzTarget('described request', described, (request) => {
    attempt(
      () => router.parse(request),
      (error) => error instanceof GatewayError && error.status < 500,
    );
  }),
  fuzzTarget(
    'who may ask',
    fc.record({
      authorization: soup('Bearer', ' ', 'a', '\t'),
      origin: fc.constant(undefined),
      host: soup('127.0.0.1', 'localhost', ':', '[', ']', '::1', '.evil', '@', '5'),
    }),
    (facts) => {
      const statusOf = (rules: Parameters<typeof findOperator>[0]) => {
        const found = findOperator(rules, facts);
        return 'status' in found ? found.status : undefined;
      };
      const tokens = [{ name: 'ana', role: 'admin', sha256: 'a'.repeat(64) }] as const;
      assert.equal(statusOf({ token: 'secret of twenty letters', host: '127.0.0.1' }), 401);
      assert.equal(statusOf({ tokens, host: '127.0.0.1' }), 401);
      assert.equal(statusOf({ token: undefined, host: '0.0.0.0' }), 403);
      if (statusOf({ token: undefined, host: '127.0.0.1' }) === undefined) assert.doesNotMatch(facts.host, /evil|@/);
    },
  ),
];
