/**
 * The keys of the config file with form, default and description: the source of `config/schema.json` and
 * `docs/configuration.md`. Parsing fills in defaults and keeps the file's form (`5s`, `256MiB`), which the `config`
 * command prints; `config.ts` converts it. Messages that begin with "expected" get the given value appended.
 */
import { z } from 'zod';
import { access, hashOfNothing } from './access-schema.ts';
import { stalenessOverrides } from './staleness-overrides.ts';
import {
  baseAddress,
  credentials,
  defaultCiphers,
  duration,
  durationMs,
  filled,
  filledList,
  flag,
  host,
  hour,
  isCipher,
  live,
  named,
  part,
  share,
  size,
  pattern,
  whole,
} from './schema-parts.ts';
import { clientTls, keyPrefix, redisServers } from './servers.ts';

const cipherFault = 'expected the OpenSSL name of a cipher, such as "ECDHE-RSA-AES128-GCM-SHA256"';
const pathFault = 'expected a path such as "/v1": a leading slash, no trailing one';
const hostFault = 'expected a host name such as "gateway.example" or "*.example", without a port';

const listen = z
  .strictObject({
    host: host('0.0.0.0').describe('Address clients connect to.'),
    port: whole(0, 65_535).default(8080).describe('Port clients connect to. 0 picks a free port and prints it.'),
    basePath: pattern(/^(?:\/[\w.~-]+)+$/, pathFault)
      .default('/v1')
      .describe('Path of the ledger interface.'),
    maxConnections: whole(1, 1_000_000)
      .default(10_000)
      .describe(
        'Most open connections of clients. Above it the longest idle ones are closed; without an idle one, new ones get 503.',
      ),
    fastPath: flag(true).describe('Fast path: plain requests bypass the HTTP server; a hit costs about a quarter.'),
    tls: z
      .strictObject({
        cert: filled('expected the name of a file').describe(
          'PEM file with the certificate, then its intermediate certificates.',
        ),
        key: filled('expected the name of a file').describe('PEM file with its private key, without a passphrase.'),
        ciphers: filledList(
          pattern(/^[A-Za-z0-9_-]+$/, cipherFault).refine(isCipher, { error: cipherFault }),
          'expected a list of ciphers',
          'needs at least one cipher',
        )
          .default([...defaultCiphers])
          .describe(
            'Ciphers of TLS 1.2 and 1.3 by their OpenSSL names, best first. The default has forward secrecy and no CBC. A TLS version without a cipher is off.',
          ),
      })
      .optional()
      .describe(
        'HTTPS with HTTP/2 and HTTP/1.1 on one port. Files are relative to the config file and reloaded when they change. Absent: plain HTTP/1.1.',
      ),
  })
  .prefault({})
  .describe('The port of clients.');

const operations = z
  .strictObject({
    host: host('127.0.0.1').describe(
      'Address of the operations port. Keep it private: only /admin needs a token, and without one serves loopback alone.',
    ),
    port: whole(0, 65_535)
      .default(9090)
      .describe('Port of /livez, /readyz, /metrics, /status and /admin. 0 picks a free port.'),
    // Without "expected": no message may quote the token.
    token: live(
      pattern(
        /^[!-~]{16,}$/,
        'must be a text of at least 16 visible ASCII characters, such as "${LEDGERGATE_ADMIN_TOKEN}"',
      )
        .optional()
        .describe('Secret for /admin (Authorization: Bearer). Absent: /admin serves loopback only.'),
    ),
    tokens: live(
      z
        .array(
          z.strictObject({
            name: named().describe('Name of the operator, in the audit log. Unique.'),
            sha256: pattern(/^[\da-fA-F]{64}$/, 'must be the SHA-256 of a token, 64 hex digits')
              .refine((text) => text.toLowerCase() !== hashOfNothing, { error: 'is the SHA-256 of an empty token' })
              .describe('SHA-256 of the token, of at least 16 characters.'),
            role: z
              .enum(['read', 'admin'], { error: 'expected read or admin' })
              .default('read')
              .describe('read: GET of /admin alone.'),
          }),
          { error: 'expected a list of tokens' },
        )
        .optional()
        .describe('Tokens of operators for /admin, beside token.'),
    ),
    hosts: live(
      z
        .array(pattern(/^(?:\*\.)?[\w-]+(?:\.[\w-]+)*$/, hostFault), { error: 'expected a list of host names' })
        .optional()
        .describe(
          'Public names of the operations port, "*.example" for all below one. Addresses, localhost and names of the cluster or machine always pass; any other Host gets 421.',
        ),
    ),
    readyInOutage: live(
      flag(true).describe(
        'Stay ready while no upstream answers, since the cache still serves pinned reads; false: /readyz is 503.',
      ),
    ),
  })
  .prefault({})
  .describe('The port of orchestrators and monitoring.');

const upstreams = z
  .array(
    z.strictObject({
      name: named().describe('Label in logs, metrics and Cache-Status. Unique.'),
      url: baseAddress('http://10.0.0.1:8080/v1').describe(
        'Base address; ledger paths are appended to it. No credentials, query or fragment.',
      ),
      discover: z
        .enum(['dns'], { error: 'expected dns' })
        .optional()
        .describe(
          'dns: one node for each address of the name in url, at most 64, such as a headless Service has. Absent: one node.',
        ),
      tier: z
        .enum(['full', 'archival'])
        .default('full')
        .describe('archival: gets only reads of versions that no full node holds.'),
      headers: credentials()
        .optional()
        .describe('Credentials for this node, sent with every request to it, such as Authorization.'),
      maxRequestsPerSecond: z
        .number({ error: 'expected a number of requests such as 20' })
        .min(0.001, { error: 'must be at least 0.001' })
        .max(1_000_000, { error: 'must be at most 1000000' })
        .optional()
        .describe(
          'Most requests a second to this node, with a burst of one second, divided among workers: for metered nodes. Probes count and are always sent. Absent: unlimited.',
        ),
      tls: clientTls('this node').optional(),
      weight: part(0.001, 1, 1).describe(
        'Share of first choices in relation to the other nodes that could answer as well: 0.1 lets a new node take a little first.',
      ),
    }),
    { error: 'expected a list of upstreams' },
  )
  .min(1, { error: 'needs at least one upstream' })
  .describe('The nodes of the fleet.');

const upstream = z
  .strictObject({
    timeout: live(
      duration('5s', 1, hour).describe(
        'Longest attempt at one upstream: to the head of a passed answer, or the end of one that is read whole.',
      ),
    ),
    deadline: live(
      duration('10s', 1, hour).describe('Longest time for all waits and attempts of one request; after it 503.'),
    ),
    probeInterval: live(duration('1s', 10, hour).describe('Interval of probes of the ledger of a quiet upstream.')),
    discoverInterval: live(duration('10s', 1_000, hour).describe('Interval of look-ups of names with discover: dns.')),
    connections: whole(1, 65_535)
      .default(128)
      .describe(
        'Most connections for reads to one upstream. Probes have two more, and each submission in flight has its own.',
      ),
    maxAttempts: live(
      whole(1, 100)
        .default(3)
        .describe('Most attempts for one request: the first, retries, hedges and the archive together.'),
    ),
    maxLag: live(
      duration('30s', 100, hour).describe(
        'An upstream that lags more behind the newest ledger serves only versions that it holds.',
      ),
    ),
    hedge: live(
      z
        .union([hedge(), z.literal(false)], { error: 'expected false, or quantile and share' })
        .prefault({})
        .describe('Second attempt at another upstream while the first is in flight; false: none.'),
    ),
    audit: live(
      share(0.001).describe('Share of pinned reads whose answer is compared with that of a second upstream.'),
    ),
  })
  .prefault({})
  .describe('Bounds on the work for one request and the load on one upstream.');

const cache = z
  .strictObject({
    gasPriceTtl: duration('1s', 0, 60_000).describe(
      'Time for which callers share a gas price; nodes keep theirs for longer. 0ms: while it is in flight.',
    ),
    memory: z
      .strictObject({
        maxBytes: live(size('256MiB', 2 ** 20).describe('Most bytes of answers kept in memory.')),
      })
      .prefault({})
      .describe('The cache in the process.'),
    store: z
      .strictObject({
        path: filled('expected a folder, such as "/var/cache/ledgergate"').describe(
          'Folder of the store; the one above it must exist. A relative path is relative to the config file.',
        ),
        maxBytes: size('4GiB', 64 * 2 ** 20).describe(
          "Most bytes of the store on the disk, SQLite's log of writes included.",
        ),
      })
      .optional()
      .describe('Answers on the disk, for all workers, kept over restarts. Absent: memory, and Redis where it is set.'),
    redis: z
      .strictObject({
        ...redisServers,
        keyPrefix,
        timeout: live(
          duration('50ms', 1, hour).describe('Longest delay that Redis may add to a read; a slower look-up is a miss.'),
        ),
        ttl: live(duration('7d', 1000, 3650 * 24 * hour).describe('Time to live of an answer.')),
      })
      .optional()
      .describe('Shared second cache; exactly one of url, cluster, sentinel.'),
  })
  .prefault({})
  .describe('The tiers of the cache of immutable answers.');

const latest = z
  .strictObject({
    maxStaleness: duration('200ms', 0, hour).describe(
      'Reads without a version share a state at most this old; 0ms: each goes to an upstream.',
    ),
    waitForVersion: duration('500ms', 0, hour).describe(
      'Longest wait of a read above every head for a node to reach it.',
    ),
    minClientStaleness: duration('0ms', 0, hour).describe(
      'Least Ledgergate-Max-Staleness: a smaller one counts as this. Above 0ms a client cannot have each of its reads sent to an upstream.',
    ),
    maxClientStaleness: duration('10s', 0, hour).describe('Most Ledgergate-Max-Staleness of clients.'),
    overrides: stalenessOverrides,
    floor: z
      .enum(['client', 'gateway'])
      .default('client')
      .describe(
        'Reach of a version that a client has got: client, no older state for this client alone; gateway, for nobody, so that each commit that a client reads ages the state that all share.',
      ),
  })
  .prefault({})
  .describe('Reads without a version.');

const follow = z
  .strictObject({
    mode: z
      .enum(['auto', 'always', 'off'])
      .default('auto')
      .describe(
        'When one process of the gateway reads new transactions from nodes. auto: while streams of them are open, more than four are waited for at once (at one worker), or minReads is exceeded for ten seconds, and 10 s longer. always: ten reads a second or more. off: never, waits are long polls of nodes, and streams of transactions get 403.',
      ),
    minReads: whole(1, 1_000_000).default(20).describe('auto: reads of recent transactions a second.'),
  })
  .prefault({})
  .describe('New transactions, read from nodes as the ledger moves.');

const streams = z
  .strictObject({
    max: whole(0, 1_000_000)
      .default(10_000)
      .describe('Most open event streams, divided among workers; above it new ones get 503. 0: none.'),
    interval: duration('1s', 100, hour).describe('Least time between two reads of a node for one watched read.'),
  })
  .prefault({})
  .describe('Event streams (Accept: text/event-stream).');

const encode = z
  .strictObject({
    enabled: live(
      flag(true).describe('Encode transactions in the gateway; false: every encode_submission goes to an upstream.'),
    ),
    shadow: live(share(0.01).describe('Share of encodings compared with an upstream.')),
    signingDomain: pattern(/^[A-Z][A-Z0-9_]{0,31}$/, 'expected capital letters, digits and "_", such as "APTOS"')
      .default('APTOS')
      .describe('Word before ::RawTransaction in the signing prefix.'),
  })
  .prefault({})
  .describe('Transactions encoded for signing.');

const level = z
  .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
  .default('info')
  .describe('Least serious level of lines. No line holds bodies, query strings or credentials.');

const format = z
  .enum(['auto', 'json', 'text'])
  .default('auto')
  .describe('Form of lines. auto: text for people when standard error is a terminal, otherwise json.');

const accessShare = share(0).describe('Share of all requests that get an access line, 0 to 1.');
const slow = duration('2s', 0, hour).describe('Slower requests get one, whatever the share.');
const failed = flag(true).describe('Requests answered 5xx get one, whatever the share.');

const log = z
  .strictObject({
    level: live(level),
    format,
    access: live(
      z
        .strictObject({ share: accessShare, slow, failed })
        .prefault({})
        .describe(
          'Access lines, at level info. Slow and failed requests beyond the share: at most 50 lines a second for each process.',
        ),
    ),
  })
  .prefault({})
  .describe('Log lines.');

/** A change of an operator; absent keys keep their values. `slow` becomes milliseconds. */
export const logChange = z.strictObject({
  level: level.removeDefault().optional(),
  access: z
    .strictObject({
      share: accessShare.removeDefault().optional(),
      slow: slow.removeDefault().transform(durationMs).optional(),
      failed: failed.removeDefault().optional(),
    })
    .optional(),
});

const tracing = z
  .strictObject({
    endpoint: baseAddress('http://127.0.0.1:4318')
      .refine((text) => !/\/v1\/traces\/?$/.test(text), { error: 'must end before /v1/traces, which is appended' })
      .describe('Base address of a collector of OTLP over HTTP; /v1/traces is appended.'),
    headers: live(
      credentials().optional().describe('Headers of every export, such as credentials for the collector. Live.'),
    ),
    share: share(0.01).describe(
      'Share of traces that are recorded, 0 to 1. A trace that its client does not record is not recorded here either.',
    ),
  })
  .describe('Traces by OpenTelemetry. Absent: off, unless an SDK is registered by --import.');

/** The config file. */
export const configSchema = z.strictObject({
  listen,
  operations,
  dialect: z
    .enum(['node', 'aptos', 'auto'])
    .default('auto')
    .describe(
      'Names of ledger headers: X-NODE-* (node) or X-APTOS-* (aptos). auto: that of most nodes that answer at the start, or of the first that answers later, fixed from then on. Nodes of the other dialect are down.',
    ),
  chainId: z
    .union([whole(1, 255), z.enum(['mainnet', 'testnet'])], {
      error: 'expected a whole number from 1 to 255, "mainnet" or "testnet"',
    })
    .optional()
    .describe(
      'The chain: nodes of other chains get no request. mainnet is 1, testnet 2. Absent: the chain that most nodes report at the start, which the log names; only their ledger info changes it.',
    ),
  workers: z
    .union([whole(1, 1024), z.literal('auto')], { error: 'expected a whole number from 1 to 1024, or "auto"' })
    .default(1)
    .describe(
      'Processes that share the port, listen.maxConnections, cache.memory.maxBytes and upstream.connections. auto: one per processor.',
    ),
  upstreams: live(upstreams),
  upstream,
  cache,
  latest: live(latest),
  follow: live(follow),
  streams: live(streams),
  encode,
  access: access.optional(),
  log,
  tracing: tracing.optional(),
});

function hedge() {
  return z.strictObject({
    quantile: part(0.5, 0.999, 0.95).describe(
      'An attempt slower than this quantile for its upstream and kind of read is hedged.',
    ),
    share: part(0.001, 1, 0.04).describe('Most hedges, as a share of all reads.'),
  });
}

/** A config in the form of the file, with every default. */
export type FileConfig = z.output<typeof configSchema>;

/** JSON Schema of the file, for editors and the list of keys. */
export function configJsonSchema(): z.core.JSONSchema.JSONSchema {
  return z.toJSONSchema(configSchema, { io: 'input' });
}
