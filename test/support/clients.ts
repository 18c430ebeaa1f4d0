/** Clients who live with a lagging fleet: where the histories come from. */
import type { TestContext } from 'node:test';
import { Agent, request as send } from 'undici';
import { Random } from './random.ts';
import type { Observation } from './history.ts';
import type { World } from './lagging-world.ts';
import { submission } from './submission.ts';

const clients = 24;
const seed = 20_260_701;

/** An observation, the address it was made through, the connection, and the age that the read allowed, if it did. */
export interface Seen extends Observation {
  readonly through: number;
  readonly connection: string;
  readonly allowedMs: number | undefined;
}

/** What the gateway knows clients by. Each belongs to two of those that live. */
export interface Identity {
  readonly name: string;
  /** The address of its connections. */
  readonly localAddress?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Addresses of this machine, as identities. */
export const addresses: readonly Identity[] = Array.from({ length: clients / 2 }, (_, index) => {
  const localAddress = `127.0.0.${index + 2}`;
  return { name: localAddress, localAddress };
});

export interface Life {
  readonly history: Seen[];
  /** Ledger headers of all answers, as reads of each connection: versions, and times of the ledger. */
  readonly told: { readonly versions: Observation[]; readonly times: Observation[] };
  /** Operations that were answered. */
  done: number;
  /** Reads answered with something else than a state. */
  refused: number;
  /** Look-ups of a submitted transaction that were answered 404. */
  unknown: number;
  /** Operations that got no answer. */
  cut: number;
}

export interface LifeOptions {
  readonly urls: readonly string[];
  /** How many operations get an answer, all clients together. */
  readonly operations: number;
  /** Whether clients tell what they have seen with every request. Default true. */
  readonly tokens?: boolean;
  /** Whether every request has a connection of its own. Default false. */
  readonly shortLived?: boolean;
  /** Default: each client has its own, which the gateway does not know. */
  readonly identities?: readonly Identity[];
  /** Called once half of them have; a quarter comes after it has resolved, if need be on top. */
  readonly midway?: () => Promise<void>;
}

/** Lets clients read, submit, and look up what they submitted until it is committed, at any address. */
export async function live(t: TestContext, world: World, options: LifeOptions): Promise<Life> {
  const { urls, operations, tokens = true, shortLived = false, midway = () => Promise.resolve() } = options;
  const { identities } = options;
  const told = { versions: [], times: [] };
  const life: Life = { history: [], told, done: 0, refused: 0, unknown: 0, cut: 0 };
  const half = Promise.withResolvers<void>();
  let enough = Infinity;
  // Once a failed test has closed the connections, operations fail at once: a loop of them would never yield.
  t.after(() => (enough = -1));
  const interrupted = half.promise.then(midway).finally(() => {
    enough = Math.max(operations, life.done + operations / 4);
  });
  const lifeOf = async (client: Client): Promise<void> => {
    while (life.done < enough) {
      await world.turn();
      try {
        await client.operate();
        life.done += 1;
      } catch {
        life.cut += 1;
      }
      if (life.done * 2 >= operations) half.resolve();
    }
  };
  const all = Array.from(
    { length: clients },
    (_, index) => new Client(index, { t, world, urls, tokens, shortLived, identities, life }),
  );
  await Promise.all([interrupted, ...all.map(lifeOf)]);
  return life;
}

interface Surroundings {
  readonly t: TestContext;
  readonly world: World;
  readonly urls: readonly string[];
  readonly tokens: boolean;
  readonly shortLived: boolean;
  readonly identities: readonly Identity[] | undefined;
  readonly life: Life;
}

interface Heard extends Pick<Seen, 'through' | 'connection' | 'startMs' | 'endMs'> {
  readonly status: number;
  readonly text: string;
}

/** One client: a connection to each address, and the newest version it has seen, which is its token. */
class Client {
  readonly #index: number;
  readonly #random: Random;
  readonly #agent: Agent;
  readonly #identity: Identity;
  readonly #around: Surroundings;
  #connections = 0;
  #token = 0n;
  /** The hash of what it submitted and has not seen committed yet. */
  #waitingFor: string | undefined;

  constructor(index: number, around: Surroundings) {
    this.#index = index;
    this.#random = new Random(seed + index);
    this.#around = around;
    const { identities = [] } = around;
    this.#identity = identities[index % identities.length] ?? { name: `client ${index}` };
    const { localAddress } = this.#identity;
    this.#agent = new Agent({ connections: 1, ...(localAddress === undefined ? {} : { connect: { localAddress } }) });
    this.#agent.on('connect', () => (this.#connections += 1));
    around.t.after(() => this.#agent.close());
  }

  /** One more step of its life. Rejects when a connection is cut. */
  async operate(): Promise<void> {
    if (this.#waitingFor !== undefined) await this.#lookUp(this.#waitingFor);
    else if (this.#random.chance(20)) await this.#submit();
    await this.#read(this.#around.identities !== undefined && this.#random.chance(20) ? 0 : undefined);
  }

  async #submit(): Promise<void> {
    const { life, world } = this.#around;
    const sender = `0x${(this.#index + 1).toString(16)}`;
    const { status, text } = await this.#ask('/transactions', submission({ sender, sequenceNumber: life.done }));
    if (status !== 202) return;
    world.commit();
    this.#waitingFor = (JSON.parse(text) as { hash: string }).hash;
  }

  async #lookUp(hash: string): Promise<void> {
    const looked = await this.#ask(`/transactions/by_hash/${hash}`);
    if (looked.status === 404) this.#around.life.unknown += 1;
    const version = looked.status === 200 ? /"version":"(\d+)"/.exec(looked.text)?.[1] : undefined;
    if (version !== undefined) this.#record('commit', BigInt(version), looked);
    if (version !== undefined || looked.status === 404) this.#waitingFor = undefined;
  }

  async #read(allowedMs: number | undefined): Promise<void> {
    const headers = allowedMs === undefined ? {} : { 'ledgergate-max-staleness': `${allowedMs}ms` };
    const read = await this.#ask('/accounts/0x1/resource/0x1::ledgergate_sample::Probe', undefined, headers);
    const version = /"ledger_version":"(\d+)"/.exec(read.text)?.[1];
    if (version === undefined) this.#around.life.refused += 1;
    else this.#record('read', BigInt(version), read, allowedMs);
  }

  #record(kind: Observation['kind'], version: bigint, heard: Heard, allowedMs?: number): void {
    const { through, connection, startMs, endMs } = heard;
    const client = this.#identity.name;
    this.#around.life.history.push({ client, connection, kind, version, startMs, endMs, through, allowedMs });
    if (version > this.#token) this.#token = version;
  }

  /** GET, or POST of a JSON body, at an address of chance. */
  async #ask(path: string, body?: string, more: Readonly<Record<string, string>> = {}): Promise<Heard> {
    const { urls, tokens } = this.#around;
    const through = this.#random.below(urls.length);
    const token = tokens ? { 'ledgergate-min-version': String(this.#token) } : {};
    const headers = { 'content-type': 'application/json', ...token, ...this.#identity.headers, ...more };
    const method = body === undefined ? 'GET' : 'POST';
    const startMs = performance.now();
    const options = {
      dispatcher: this.#agent,
      method,
      headers,
      body: body ?? null,
      reset: this.#around.shortLived,
    } as const;
    const response = await send((urls[through] ?? '') + path, options);
    const text = await response.body.text();
    const endMs = performance.now();
    const connection = `connection ${this.#connections} of client ${this.#index}`;
    const { versions, times } = this.#around.life.told;
    const tell = (seen: Observation[], header: string): void => {
      const value = response.headers[header];
      if (value === undefined) return;
      seen.push({ client: connection, kind: 'read', version: BigInt(String(value)), startMs, endMs });
    };
    tell(versions, 'x-node-ledger-version');
    tell(times, 'x-node-ledger-timestampusec');
    return { status: response.statusCode, text, through, connection, startMs, endMs };
  }
}
