/** A gateway in front of a test's nodes, over real sockets. */
import { Pool, request as send, type Dispatcher } from 'undici';
import type { AccessConfig, Config } from '../../src/config/config.ts';
import type { LookUp } from '../../src/upstream/nodes.ts';
import { startGateway, type GatewayOptions, type RunningGateway } from '../../src/gateway/gateway.ts';
import { GatewayLog } from '../../src/gateway/log.ts';
import type { ConnectionTimes } from '../../src/proxy/http/server/connection-state.ts';
import { fakeNode, type FakeNode, type FakeNodeOptions } from './fake-node.ts';
import { sampleIn } from './metric-counts.ts';
import type { Ending } from './temporary-folder.ts';

export interface NodeAddress {
  readonly url: string;
  /** Credentials for the node. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly maxRequestsPerSecond?: number | undefined;
  /** Default 1. */
  readonly weight?: number;
  readonly discover?: 'dns' | undefined;
  readonly tls?: Config['upstreams'][number]['tls'];
}

export interface TestGatewayOptions {
  readonly full?: readonly NodeAddress[];
  readonly archival?: readonly NodeAddress[];
  /** Parts of the config that matter for the test. */
  readonly config?: { readonly [Part in keyof Omit<Config, 'access' | 'tracing'>]?: Partial<Config[Part]> };
  /** Default: the endpoint is open. */
  readonly access?: AccessConfig;
  /** Default: none. */
  readonly tracing?: NonNullable<Config['tracing']>;
  /** The encoder's clock, in milliseconds. */
  readonly now?: () => number;
  /** Default 0. */
  readonly drainDelayMs?: number;
  readonly times?: Partial<ConnectionTimes>;
  /** Default: never. A busy machine makes this process late, nodes and clients with it, and no test means that. */
  readonly isOverloaded?: () => boolean;
  /** Default: nodes' histories are not compared. */
  readonly forkTimes?: GatewayOptions['forkTimes'];
  /** Finds the addresses of names. Default: by the system. */
  readonly lookUp?: LookUp;
  /** Takes the log lines, whatever their level. */
  readonly onLog?: (line: LogLine) => void;
}

export type LogLine = Readonly<Record<string, unknown>>;

/** An answer as a client sees it, body read whole. */
export interface Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: Buffer;
  readonly text: string;
}

/** The statuses of replies, in their order. */
export function statusesOf(replies: readonly Pick<Reply, 'status'>[]): readonly number[] {
  return replies.map(({ status }) => status);
}

export interface TestGateway extends RunningGateway {
  /** GET of a path below the base path. */
  get(path: string, headers?: Record<string, string>): Promise<Reply>;
  post(path: string, body: string | Buffer, headers?: Record<string, string>): Promise<Reply>;
  send(method: Dispatcher.HttpMethod, path: string, options?: SendOptions): Promise<Reply>;
  /** A sample of `/metrics`, for example `ledgergate_pruned_answers_repaired_total`; 0 when it is not there yet. */
  metric(sample: string): Promise<number>;
}

export interface SendOptions {
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

/** Path of a resource whose body names the version that was read. */
export const probe = '/accounts/0x1/resource/0x1::ledgergate_sample::Probe';

export function probeAt(version: number | bigint): string {
  return `${probe}?ledger_version=${version}`;
}

/** For tests in which no read may fail: hundreds at once may keep a busy machine for seconds. */
export const patient = { timeoutMs: 20_000, deadlineMs: 20_000 };

/** Reads of nodes are counted in most tests. */
const never = { intervalMs: 3_600_000, pauseMs: 0 };

/** Journeys run with the fast path and without it. */
const fastPath = process.env['LEDGERGATE_TEST_FAST_PATH'] !== 'off';

export function testConfig(options: TestGatewayOptions): Config {
  const { full = [], archival = [], config = {}, access, tracing } = options;
  return {
    listen: { host: '127.0.0.1', port: 0, basePath: '/v1', maxConnections: 10_000, fastPath, ...config.listen },
    operations: { host: '127.0.0.1', port: 0, readyInOutage: true, ...config.operations },
    dialect: 'node',
    chainId: config.chainId,
    workers: 1,
    upstreams: [...upstreamsOf('full', 'full', full), ...upstreamsOf('archive', 'archival', archival)],
    upstream: {
      timeoutMs: 2_000,
      deadlineMs: 4_000,
      // Tests decide when nodes are probed: one probe at the start, then only answers.
      probeIntervalMs: 3_600_000,
      discoverIntervalMs: 3_600_000,
      connections: 64,
      maxAttempts: 3,
      maxLagMs: 30_000,
      // How many reads a node gets is counted in most tests, and a slow machine must not change it.
      hedge: undefined,
      audit: 0,
      ...config.upstream,
    },
    cache: { gasPriceTtlMs: 1_000, memory: { maxBytes: 64 * 1024 * 1024 }, ...config.cache },
    latest: {
      maxStalenessMs: 200,
      waitForVersionMs: 100,
      minClientStalenessMs: 0,
      maxClientStalenessMs: 10_000,
      overrides: [],
      floor: 'client',
      ...config.latest,
    },
    follow: { mode: 'auto', minReads: 20, ...config.follow },
    streams: { max: 10_000, intervalMs: 1_000, ...config.streams },
    encode: { enabled: true, shadow: 0, signingDomain: 'APTOS', ...config.encode },
    log: { level: 'silent', format: 'json', access: { share: 1, slowMs: 2_000, failed: true }, ...config.log },
    access,
    tracing,
  };
}

function upstreamsOf(name: string, tier: 'full' | 'archival', nodes: readonly NodeAddress[]) {
  return nodes.map(({ url, headers, maxRequestsPerSecond, weight = 1, discover, tls }, index) => {
    const known = { name: `${name}-${index}`, url: new URL(url).href, tier };
    return { ...known, headers, maxRequestsPerSecond, weight, discover, tls };
  });
}

/** Starts a gateway that is closed after the test. */
export async function testGateway(
  t: Ending,
  options: TestGatewayOptions,
  dialect?: Config['dialect'],
): Promise<TestGateway> {
  const config = testConfig(options);
  const { now, onLog, drainDelayMs = 0, times, isOverloaded = () => false } = options;
  const { forkTimes = never, lookUp } = options;
  // The audit log has a line at any level.
  const log = new GatewayLog(config.log, { write: (line) => onLog?.(JSON.parse(line) as LogLine) });
  // Every line, whatever the config has.
  if (onLog !== undefined) log.logger.level = 'trace';
  const gateway = await startGateway(
    { ...config, dialect: dialect ?? 'node' },
    {
      log,
      drainDelayMs,
      isOverloaded,
      forkTimes,
      ...(now === undefined ? {} : { now }),
      ...(times === undefined ? {} : { times }),
      ...(lookUp === undefined ? {} : { lookUp }),
    },
  );
  t.after(() => gateway.close());
  const call = (method: Dispatcher.HttpMethod, path: string, { headers = {}, body }: SendOptions = {}) =>
    fetchReply(gateway.url + path, { method, headers, body: body ?? null });
  return {
    ...gateway,
    send: call,
    get: (path, headers = {}) => call('GET', path, { headers }),
    post: (path, body, headers = {}) =>
      call('POST', path, { body, headers: { 'content-type': 'application/json', ...headers } }),
    async metric(sample) {
      const { text } = await fetchReply(`${gateway.operationsUrl}/metrics`, { method: 'GET' });
      return sampleIn(text, sample) ?? 0;
    },
  };
}

/** One full node, with head 900 unless `nodeOptions` name another, and a gateway in front of it. */
export async function nodeAndGateway(
  t: Ending,
  options: Omit<TestGatewayOptions, 'full'> = {},
  nodeOptions: FakeNodeOptions = {},
): Promise<{ readonly node: FakeNode; readonly gateway: TestGateway }> {
  const node = await fakeNode(t, { head: 900n, ...nodeOptions });
  return { node, gateway: await testGateway(t, { ...options, full: [node] }) };
}

/** A full node from version 500 and an archival one, both with head 900 unless `ledger` differs, and their gateway. */
export async function twoTiers(
  t: Ending,
  options: Omit<TestGatewayOptions, 'full' | 'archival'> = {},
  ledger: Pick<FakeNodeOptions, 'oldest' | 'head' | 'chainId'> = {},
): Promise<{ readonly full: FakeNode; readonly archival: FakeNode; readonly gateway: TestGateway }> {
  const full = await fakeNode(t, { oldest: 500n, head: 900n, ...ledger });
  const archival = await fakeNode(t, { head: 900n, ...ledger, archival: true });
  return { full, archival, gateway: await testGateway(t, { ...options, full: [full], archival: [archival] }) };
}

/** GET of paths below the base path over connections that stay open, for tests with hundreds of reads. */
export function pooledGet(t: Ending, gateway: Pick<TestGateway, 'url'>) {
  const { origin, pathname } = new URL(gateway.url);
  const pool = new Pool(origin);
  t.after(() => pool.destroy());
  return async (path: string): Promise<Pick<Reply, 'status' | 'text'>> => {
    const { statusCode: status, body } = await pool.request({ method: 'GET', path: pathname + path });
    return { status, text: await body.text() };
  };
}

/** One request over a connection of its own. */
export async function fetchReply(
  url: string,
  options: Omit<Dispatcher.RequestOptions, 'path' | 'origin'>,
): Promise<Reply> {
  const response = await send(url, { ...options, reset: true });
  const body = Buffer.from(await response.body.arrayBuffer());
  return { status: response.statusCode, headers: response.headers as Reply['headers'], body, text: body.toString() };
}
