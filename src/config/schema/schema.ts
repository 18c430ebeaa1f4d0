/**
 * The config file's keys, their forms, defaults and meaning. `config/schema.json` and `docs/configuration.md` are
 * generated from here. The schema changes nothing but fills in defaults: what it returns is still what a file could
 * have said (`5s`, `256MiB`), which is what the `config` command prints; `to-config.ts` makes numbers of it.
 *
 * Messages that begin with "expected" get the value they met appended.
 */
import { z } from 'zod';
import { access } from './access-schema.ts';
import { log } from './log-schema.ts';
import {
  duration,
  filled,
  filledList,
  flag,
  host,
  hour,
  named,
  part,
  redisUrl,
  share,
  size,
  pattern,
  whole,
} from './schema-parts.ts';
import { defaultCiphers, isCipher } from '../tls-ciphers.ts';

const cipherFault = 'expected a cipher that OpenSSL knows, such as "ECDHE-RSA-AES128-GCM-SHA256"';
const pathFault = 'expected a path such as "/v1": a leading slash, no trailing one';
const hostFault = 'expected a host name such as "gateway.example" or "*.example", without a port';

const listen = z
  .strictObject({
    host: host('0.0.0.0').describe('Address clients connect to.'),
    port: whole(0, 65_535).default(8080).describe('Port clients connect to. 0 picks a free one and prints it.'),
    basePath: pattern(/^(?:\/[\w.~-]+)+$/, pathFault)
      .default('/v1')
      .describe('Path below which the ledger interface is served.'),
    maxConnections: whole(1, 1_000_000)
      .default(10_000)
      .describe(
        'Most open connections of clients. Beyond it those idle longest are closed; where none is, new ones get 503.',
      ),
    fastPath: flag(true).describe(
      'Plain reads are answered ahead of the HTTP server, at half the cost. Not where there are keys (access) or TLS.',
    ),
    tls: z
      .strictObject({
        cert: filled('expected the name of a file').describe(
          'File with the certificate and those between it and the root, PEM, in that order.',
        ),
        key: filled('expected the name of a file').describe('File with its private key, PEM, without a passphrase.'),
        ciphers: filledList(
          pattern(/^[A-Za-z0-9_-]+$/, cipherFault).refine(isCipher, { error: cipherFault }),
          'expected a list of ciphers',
          'needs at least one cipher',
        )
          .default([...defaultCiphers])
          .describe(
            'Ciphers of TLS 1.2 and 1.3 by their OpenSSL names, best first. The default has forward secrecy and no CBC. A version without any is not spoken.',
          ),
      })
      .optional()
      .describe(
        'HTTPS with HTTP/2 and HTTP/1.1 on the same port. Files are relative to the config file, and read again when they change. Absent: plain HTTP/1.1.',
      ),
  })
  .prefault({})
  .describe('Where clients connect.');

const operations = z
  .strictObject({
    host: host('127.0.0.1').describe(
      'Address of the operations port. Keep it private: only /admin asks for a token, and is closed without one beyond loopback.',
    ),
    port: whole(0, 65_535)
      .default(9090)
      .describe('Port for /livez, /readyz, /metrics, /status and /admin. 0 picks a free one.'),
    // A message that began with "expected" would have the value appended.
    token: pattern(
      /^[!-~]{16,}$/,
      'must be a text of at least 16 visible ASCII characters, such as "${LEDGERGATE_ADMIN_TOKEN}"',
    )
      .optional()
      .describe('Secret that /admin asks for (Authorization: Bearer). Absent: /admin is open on loopback only.'),
    hosts: z
      .array(pattern(/^(?:\*\.)?[\w-]+(?:\.[\w-]+)*$/, hostFault), { error: 'expected a list of host names' })
      .optional()
      .describe(
        'Public names that the operations port answers for, "*.example" for all below one. Addresses, localhost and names of one cluster or machine always pass; any other Host gets 421.',
      ),
    readyInOutage: flag(true).describe(
      'Stay ready when no upstream answers any more, because pinned answers are still given; false: /readyz says 503.',
    ),
  })
  .prefault({})
  .describe('Where orchestrators and monitoring connect.');

/** What editors can check while typing; `upstreamUrlFault` says what is wrong in words. */
const upstreamUrlPattern = /^https?:\/\/[^\s/?#@\\]+(?:\/[^\s?#@\\]*)?$/;

/** Why `text` cannot be an upstream's base address, or `undefined` when it can. Never repeats the text. */
function upstreamUrlFault(text: string): string | undefined {
  if (!/^https?:\/\//.test(text)) return 'expected a base address such as "http://10.0.0.1:8080/v1"';
  // The address is written to logs, metrics and the status page; a password in it would be, too.
  if (/^https?:\/\/[^/?#]*@/.test(text)) return 'must not carry credentials';
  if (/[?#]/.test(text)) return 'must end with its path: no "?" and no "#"';
  if (!upstreamUrlPattern.test(text) || !URL.canParse(text)) return 'is not an address that can be called';
  return undefined;
}

const upstreams = z
  .array(
    z.strictObject({
      name: named().describe('Label in logs, metrics and Cache-Status. Unique.'),
      url: z
        .string({ error: 'expected a base address such as "http://10.0.0.1:8080/v1"' })
        .regex(upstreamUrlPattern, { error: (issue) => upstreamUrlFault(String(issue.input)), abort: true })
        .refine((text) => upstreamUrlFault(text) === undefined, {
          error: (issue) => upstreamUrlFault(String(issue.input)),
        })
        .describe('Base address; ledger paths are appended to it. No credentials, query or fragment.'),
      tier: z
        .enum(['full', 'archival'])
        .default('full')
        .describe('archival: asked only when no full node holds the version.'),
      headers: z
        .record(
          pattern(/^[A-Za-z][\w-]{0,62}$/, 'expected the name of a header such as "Authorization"'),
          pattern(/^[!-~](?:[ !-~]*[!-~])?$/, 'must be visible ASCII characters, such as "Bearer ${NODE_KEY}"'),
          { error: 'must be headers by name' },
        )
        .optional()
        .describe("The node's own credentials, sent with every request to it alone, such as Authorization."),
    }),
    { error: 'expected a list of upstreams' },
  )
  .min(1, { error: 'needs at least one upstream' })
  .describe('The nodes behind the gateway.');

const upstream = z
  .strictObject({
    timeout: duration('5s', 1, hour).describe('Longest one attempt at one upstream may take.'),
    deadline: duration('10s', 1, hour).describe('Longest all attempts for one request may take together.'),
    probeInterval: duration('1s', 10, hour).describe('How often a quiet upstream is asked for its ledger.'),
    connections: whole(1, 65_535)
      .default(128)
      .describe(
        'Most connections for reads to one upstream. Probes have two more, and each submission in flight has its own.',
      ),
    maxAttempts: whole(1, 100).default(3).describe('Most attempts for one request, over all upstreams.'),
    maxLag: duration('30s', 100, hour).describe(
      'An upstream whose ledger is farther behind the newest serves only what it holds.',
    ),
    hedge: z
      .union([hedge(), z.literal(false)], { error: 'expected false, or quantile and share' })
      .prefault({})
      .describe('Second attempt at another upstream before the first has failed; false: none.'),
    audit: share(0.001).describe(
      'Share of pinned reads that a second upstream which holds the version is asked for as well, and compared.',
    ),
  })
  .prefault({})
  .describe('Bounds on the work for one request and the load on one upstream.');

const cache = z
  .strictObject({
    memory: z
      .strictObject({
        maxBytes: size('256MiB', 2 ** 20).describe('Most bytes of answers kept in memory.'),
      })
      .prefault({})
      .describe('The cache inside the process.'),
    redis: z
      .strictObject({
        url: redisUrl().optional().describe('One server: redis://HOST:PORT/DB, or rediss:// for TLS.'),
        cluster: filledList(redisUrl(), 'expected a list of redis:// addresses', 'needs at least one node')
          .optional()
          .describe('Cluster: addresses of some of its nodes.'),
        sentinel: z
          .strictObject({
            name: filled('expected a name').describe('Name of the primary the sentinels watch.'),
            nodes: filledList(
              redisUrl(),
              'expected a list of redis:// addresses',
              'needs at least one sentinel',
            ).describe('Addresses of the sentinels.'),
          })
          .optional()
          .describe('Servers found through sentinels.'),
        keyPrefix: pattern(/^[\w.:-]{1,64}$/, 'expected 1 to 64 letters, digits or any of "._:-"')
          .default('lg')
          .describe('First part of every key.'),
        timeout: duration('50ms', 1, hour).describe(
          'Most that Redis may add to a read; a look-up that takes longer is a miss.',
        ),
        ttl: duration('7d', 1000, 3650 * 24 * hour).describe('How long an answer is kept.'),
      })
      .optional()
      .describe('Shared second cache; exactly one of url, cluster, sentinel.'),
  })
  .prefault({})
  .describe('Where answers that can never change are kept.');

const latest = z
  .strictObject({
    maxStaleness: duration('200ms', 0, hour).describe(
      'Reads that name no version are answered from a state at most this old and shared; 0ms: each is sent to an upstream.',
    ),
    waitForVersion: duration('500ms', 0, hour).describe(
      'How long a read above every head waits for a node to get there.',
    ),
    minClientStaleness: duration('0ms', 0, hour).describe(
      'Ledgergate-Max-Staleness of clients counts as at least this; above 0ms nobody can make every read go upstream.',
    ),
    maxClientStaleness: duration('10s', 0, hour).describe(
      'Ledgergate-Max-Staleness of clients counts as at most this.',
    ),
  })
  .prefault({})
  .describe('Reads that do not say which version.');

const encode = z
  .strictObject({
    enabled: flag(true).describe(
      'Encode transactions in the gateway; false: every encode_submission goes to an upstream.',
    ),
    shadow: share(0.01).describe('Share of encodings that are compared with an upstream.'),
    signingDomain: pattern(/^[A-Z][A-Z0-9_]{0,31}$/, 'expected capital letters, digits and "_", such as "APTOS"')
      .default('APTOS')
      .describe('Word before ::RawTransaction in the signing prefix.'),
  })
  .prefault({})
  .describe('Transactions encoded for signing.');

export const configSchema = z.strictObject({
  listen,
  operations,
  dialect: z
    .enum(['node', 'aptos'])
    .default('node')
    .describe('Header names: node speaks X-NODE-*, aptos speaks X-APTOS-*.'),
  chainId: z
    .union([whole(1, 255), z.enum(['mainnet', 'testnet'])], {
      error: 'expected a whole number from 1 to 255, "mainnet" or "testnet"',
    })
    .optional()
    .describe(
      'The chain: nodes of any other are never asked, whatever they report later. mainnet is 1, testnet 2. Absent: the chain that most nodes report at the start, and only their ledger info changes it.',
    ),
  workers: z
    .union([whole(1, 1024), z.literal('auto')], { error: 'expected a whole number from 1 to 1024, or "auto"' })
    .default(1)
    .describe(
      'Processes that share the port and what listen.maxConnections, cache.memory.maxBytes and upstream.connections grant. auto: one per processor.',
    ),
  upstreams,
  upstream,
  cache,
  latest,
  encode,
  access: access.optional(),
  log,
});

function hedge() {
  return z.strictObject({
    quantile: part(0.5, 0.999, 0.95).describe(
      'An attempt that takes longer than this part of the answers of its upstream and kind of read is hedged.',
    ),
    share: part(0.001, 1, 0.04).describe('Most hedges, in parts of all reads.'),
  });
}

/** A config as a file would say it, with every default filled in. */
export type FileConfig = z.output<typeof configSchema>;

/** JSON Schema of the file, for editors and for whoever needs the list of keys. */
export function configJsonSchema(): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(configSchema, { io: 'input' });
}
