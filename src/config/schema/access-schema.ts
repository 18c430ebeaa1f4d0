/** The schema of `access`: keys, plans and costs; and the headers that keys and node credentials may use. */
import { isIP } from 'node:net';
import { z } from 'zod';
import {
  duration,
  filled,
  filledList,
  flag,
  hour,
  live,
  named,
  part,
  pattern,
  requiredDuration,
  whole,
} from './schema-parts.ts';
import { keyPrefix, redisServers, redisTimeout } from './servers.ts';
import { isForNodes } from '../../ledger/index.ts';

/** The operations that plans and keys grant. `pass`: every path that is passed through. */
export const accessOperations = ['read', 'view', 'encode', 'submit', 'pass'] as const;

const planName = named();

const operations = filledList(
  z.enum(accessOperations),
  `expected a list of ${accessOperations.join(', ')}`,
  'needs at least one operation',
);

const originFault = 'expected an origin such as "https://app.example": scheme, host, perhaps a port';
/** A list of origins (RFC 6454) without `null`. */
const origins = z.array(pattern(/^https?:\/\/[^\s/?#@,]+$/, originFault), {
  error: 'expected a list of origins',
});

function isNetwork(text: string): boolean {
  const [address = '', bits = '0'] = text.split('/');
  const family = isIP(address);
  return family !== 0 && Number(bits) <= (family === 6 ? 128 : 32);
}

const cidrFault = 'expected an address or a network such as "10.0.0.0/8" or "fd00::/8"';
const network = pattern(/^[\da-fA-F.:]+(?:\/\d{1,3})?$/, cidrFault).refine(isNetwork, { error: cidrFault });

/** Addresses and networks in CIDR form, IPv4 and IPv6. */
const addresses = filledList(network, 'expected a list of networks', 'needs at least one network');

const keyName = pattern(/^[A-Za-z][\w.-]{0,62}$/, 'must be a letter, then at most 62 letters, digits or any of "._-"');
/** A client with an empty header would have this key. */
export const hashOfNothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';
const hashFault = 'must be the SHA-256 of a key, 64 hex digits (ledgergate keys create makes both)';
const expiryFault = 'must be a time in UTC such as "2027-01-01T00:00:00Z"';

/** A key, as the keys file and Redis have it. */
export const keySchema = z.strictObject({
  name: keyName,
  tenant: keyName.optional(),
  plan: planName,
  sha256: pattern(/^[\da-fA-F]{64}$/, hashFault).refine((text) => text.toLowerCase() !== hashOfNothing, {
    error: 'is the SHA-256 of an empty key',
  }),
  operations: operations.optional(),
  origins: origins.optional(),
  addresses: addresses.optional(),
  expires: z.iso.datetime({ error: expiryFault }).optional(),
});

/** A new key without its secret, as operators send it. `source`: absent: Redis, where the config has both. */
export const newKeySchema = keySchema
  .omit({ sha256: true })
  .extend({ source: z.enum(['file', 'redis'], { error: 'expected file or redis' }).optional() });

const { plan: planOfKey, tenant, operations: operationsOfKey, origins: originsOfKey, expires } = keySchema.shape;

/** Changes of a key, as operators send them; null removes a field (RFC 7396). */
export const keyChangesSchema = z.strictObject({
  plan: planOfKey.optional(),
  tenant: tenant.nullable(),
  operations: operationsOfKey.nullable(),
  origins: originsOfKey.nullable(),
  addresses: keySchema.shape.addresses.nullable(),
  expires: expires.nullable(),
});

const most = whole(1, 1_000_000_000);

const functionFault = 'expected functions such as "0x1::coin::balance", "0x1::coin::*" or "0x1::*"';
const functions = filledList(
  pattern(/^0x[\da-fA-F]{1,64}::(?:\*|[A-Za-z_]\w*::(?:\*|[A-Za-z_]\w*))$/, functionFault),
  'expected a list of functions',
  'needs at least one function',
);

const quota = z
  .strictObject({
    day: most.optional().describe('Most of a day (UTC). Absent: any.'),
    month: most.optional().describe('Most of a calendar month (UTC). Absent: any.'),
    unit: z
      .enum(['requests', 'cost'], { error: 'expected requests or cost' })
      .default('requests')
      .describe('requests counts requests; cost counts their cost, see costs.'),
  })
  .describe('Quotas of a tenant by calendar. Absent: none.');

const perAddress = z
  .strictObject({
    requests: most.describe('Most requests of one address (IPv6: of one /64) within the window.'),
    window: duration('10s', 1_000, hour).describe('Sliding window of these requests.'),
  })
  .describe('Bound of each client address within a key, ahead of the bounds of the plan. Absent: none.');

const views = z
  .strictObject({
    allow: functions.optional().describe('Allowed functions. Absent: all.'),
    deny: functions.optional().describe('Refused functions, also of those that allow names.'),
  })
  .describe('Functions of views, as "0x1::coin::balance", "0x1::coin::*" or "0x1::*". Absent: all.');

const plan = z.strictObject({
  window: duration('10s', 1_000, hour).describe('Sliding window of requests and cost.'),
  requests: most.optional().describe('Most requests within the window, counted at admission. Absent: any number.'),
  cost: most
    .optional()
    .describe('Most cost within the window, see costs: the least at admission, the rest at the answer. Absent: any.'),
  burst: most.optional().describe('Most requests within a second. Absent: any number.'),
  concurrency: most
    .optional()
    .describe(
      'Most requests in flight, until the answer, or the client, has left; submissions, and reads of modules to sign with, until the node answers, at most 30 s. Absent: any number.',
    ),
  streams: most.optional().describe('Most open event streams, from their heads on. Absent: any number.'),
  wait: duration('0ms', 0, 60_000).describe('Longest wait of a request over a limit before it gets 429.'),
  operations: operations
    .default([...accessOperations])
    .describe('Allowed operations: read (resources, modules, transactions, ledger info), view, encode, submit, pass.'),
  origins: origins.optional().describe('Allowed origins of pages (Origin). Absent: any.'),
  quota: quota.optional(),
  perAddress: perAddress.optional(),
  views: views.optional(),
  maxStaleness: requiredDuration(0, hour)
    .optional()
    .describe(
      'Age of the shared state for reads without a version, in place of latest.maxStaleness; of an override that matches and this, the smaller one. Absent: no bound of the plan.',
    ),
});

const claim = (fallback: string) => filled('expected the name of a claim').default(fallback);

/** Asymmetric signatures alone: with a shared secret, the gateway could make tokens. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const;

/** An attacker who can change the keys on their way can make tokens. */
const jwksFault = 'expected an https:// address (http:// on this machine alone), or a path';

const jwksAddress = /^(?:https:\/\/[^\s/?#@\\]+|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?)(?:[/?][^\s#]*)?$/;

const jwt = z
  .strictObject({
    issuer: filled('expected the issuer of tokens').describe('Required claim iss, to the letter.'),
    audience: filled('expected the audience of tokens').describe('Required in the claim aud.'),
    jwks: filled(jwksFault)
      .refine((text) => !/^https?:/.test(text) || jwksAddress.test(text), { error: jwksFault })
      .describe(
        'Public keys of the issuer (JWKS): an https:// address (http:// on this machine), or a file relative to the config file.',
      ),
    algorithms: filledList(
      z.enum(algorithms),
      `expected a list of ${algorithms.join(', ')}`,
      'needs at least one algorithm',
    )
      .default(['RS256', 'ES256', 'EdDSA'])
      .describe('Accepted signatures.'),
    clockSkew: duration('30s', 0, 300_000).describe('Difference of clocks that exp and nbf are read with.'),
    claims: z
      .strictObject({
        tenant: claim('sub').describe('Claim with the tenant.'),
        plan: claim('plan').describe('Claim with the name of the plan.'),
      })
      .prefault({})
      .describe('Names of claims.'),
    plan: planName.optional().describe('Plan of tokens without the claim. Absent: 401.'),
  })
  .describe('Tokens of an issuer (JWT) beside keys, in the same header. Absent: keys alone.');

const accessRedis = z
  .strictObject({ ...redisServers, keyPrefix, timeout: redisTimeout })
  .describe(
    'Redis of keys, limits, quotas and usage; exactly one of url, cluster, sentinel. Give it noeviction. Absent: cache.redis.',
  );

const amount = (fallback: number) => part(0, 1_000_000, fallback);

const costs = z
  .strictObject({
    hit: amount(1).describe('An answer from memory or Redis.'),
    miss: amount(2).describe('A read that a node answered.'),
    upstreamMs: amount(0.1).describe('Each millisecond of a node.'),
    gasUnit: amount(0.01).describe('Each unit of gas of a view.'),
    encode: amount(1).describe('A signing message of the gateway.'),
    encodeKiB: amount(1).describe('Each KiB of the body of an encode request.'),
    submit: amount(10).describe('A submission.'),
    pass: amount(2).describe('A request that passes through.'),
  })
  .prefault({})
  .describe('Costs of requests.');

/** The section `access`. */
export const access = z
  .strictObject({
    header: live(
      pattern(/^[a-z][a-z\d-]{0,62}$/, 'expected a header name such as "authorization" or "x-api-key"')
        .refine(isFitForKeys, { error: 'has another meaning, or is forwarded to nodes: keys must never reach one' })
        .default('authorization')
        .describe('Header that holds the key, lower case; in authorization it follows "Bearer".'),
    ),
    keys: z
      .strictObject({
        file: filled('expected a path')
          .optional()
          .describe('File of keys, relative to the config file. Reloaded when it changes.'),
        redis: flag(false).describe('Keys also come from Redis (access.redis, else cache.redis).'),
      })
      .prefault({})
      .describe('Sources of keys, stored as SHA-256 hashes.'),
    jwt: jwt.optional(),
    redis: accessRedis.optional(),
    anonymous: live(planName.optional().describe('Plan of requests without a key, per client address. Absent: 401.')),
    trustedProxies: live(
      z
        .array(network, { error: 'expected a list of networks' })
        .default([])
        .describe('Networks whose X-Forwarded-For counts.'),
    ),
    whenRedisIsDown: live(
      z
        .enum(['local', 'refuse', 'allow'])
        .default('local')
        .describe(
          'Limits while Redis is down: local counts in each replica, refuse answers 503, allow counts nothing.',
        ),
    ),
    plans: live(z.record(planName, plan, { error: 'expected plans by name' }).describe('Limits by name.')),
    costs: live(costs),
    usage: z
      .strictObject({
        metricsByKey: flag(false).describe('Metrics by key as well as by plan: one series per key.'),
        path: filled('expected a folder, such as "/var/lib/ledgergate"')
          .optional()
          .describe(
            'Folder that keeps quotas and usage over restarts, without Redis; relative to the config file. Absent: cache.store.path, if set.',
          ),
      })
      .prefault({})
      .describe('Usage reports.'),
  })
  .describe('Keys and limits. Absent: the endpoint is open.');

/** Hop-by-hop and framing headers, and headers that the gateway writes. */
const reserved: ReadonlySet<string> = new Set(
  [
    ['accept', 'accept-encoding', 'connection', 'content-encoding', 'content-length', 'content-type', 'date', 'expect'],
    ['forwarded', 'host', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'via'],
  ].flat(),
);

/** Headers that browsers and proxies send with another meaning. */
const clientHeaders: ReadonlySet<string> = new Set(
  [
    ['cookie', 'origin', 'proxy-authenticate', 'proxy-authorization', 'range', 'referer', 'vary', 'cache-control'],
    ['if-range', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'],
  ].flat(),
);

/** Whether clients may send keys in it (lower case). The gateway must not forward it: keys never reach a node. */
function isFitForKeys(name: string): boolean {
  return (
    !isForNodes(name) &&
    !reserved.has(name) &&
    !clientHeaders.has(name) &&
    !/^(?:ledgergate|access-control|sec)-/.test(name)
  );
}

/** Whether it may carry a credential to a node. */
export function isFitForCredentials(name: string): boolean {
  return !reserved.has(name.toLowerCase());
}
