/** The keys of a gateway in their sources: requests are identified by them, and operators change them. */
import type { z } from 'zod';
import type { keyChangesSchema, newKeySchema } from '../../config/index.ts';
import { nearMissHint } from '../../ledger/index.ts';
import type { AccessRedis } from '../redis.ts';
import { FileKeys, type KeysContext } from './file-keys.ts';
import { type KeysChange, KeysFault, type KeySource } from './key-source.ts';
import { createKey, describeKey, type KeyRecord, type Principals } from './principals.ts';
import { RedisKeys } from './redis-keys.ts';

type NewKey = z.output<typeof newKeySchema>;
type KeyChanges = z.output<typeof keyChangesSchema>;

/** An operator's request about keys: plain data that can cross to another process. */
export type KeysRequest =
  | { readonly action: 'list' }
  | { readonly action: 'create'; readonly key: NewKey }
  | { readonly action: 'change'; readonly name: string; readonly changes: KeyChanges }
  | { readonly action: 'revoke'; readonly name: string };

type DescribedKey = ReturnType<typeof describeKey> & {
  readonly source: 'file' | 'redis';
  /** False for an expired key, one without a plan, and one that the other source overrides. */
  readonly inForce: boolean;
};

type NamedSource = readonly [name: DescribedKey['source'], source: KeySource];

/** The file, Redis, or both. */
export class KeyStore {
  /** Resolves after the first poll of Redis. */
  readonly started: Promise<void> | undefined;
  readonly #principals: Principals;
  readonly #publishChange: (change: KeysChange) => Promise<void> | undefined;
  readonly #file: FileKeys | undefined;
  readonly #redis: RedisKeys | undefined;

  /**
   * Reads the file at once. Throws ConfigError when it is invalid and no other worker has a valid one. `redis`: absent
   * without keys in it. `publish`: to the other workers; resolves once they have the change in force, or after a bound.
   */
  constructor(
    file: string | undefined,
    redis: AccessRedis | undefined,
    context: KeysContext,
    publish: (change: KeysChange) => Promise<void> | undefined,
  ) {
    this.#principals = context.principals;
    this.#publishChange = publish;
    this.#file = file === undefined ? undefined : new FileKeys(file, context);
    this.#redis = redis && new RedisKeys(redis, context);
    this.started = this.#redis?.started;
  }

  /** Throws ConfigError when keys of the file in force would lose their plan. */
  check(plans: ReadonlySet<string>): void {
    this.#file?.check(plans);
  }

  /** New plans may make refused keys valid. */
  reapplyPlans(): void {
    this.#file?.reapplyPlans();
    this.#redis?.reapplyPlans();
  }

  /** Reads what another process has changed; resolves once it is in force here. */
  async readChange({ sha256 }: KeysChange): Promise<void> {
    if (sha256 === undefined) this.#file?.readNow();
    else await this.#redis?.readKey(sha256);
  }

  list(): { readonly keys: readonly DescribedKey[]; readonly problems: readonly string[] } {
    const keys = this.#sources.flatMap(([source, { found }]) => found.keys.map((key) => this.#describe(key, source)));
    return { keys, problems: this.#sources.flatMap(([, { found }]) => found.problems) };
  }

  /** Makes a key; resolves with it once it is in force here and in the other workers. Rejects with `KeysFault`. */
  async create({ source, ...fields }: NewKey): Promise<DescribedKey & { readonly key: string }> {
    const { name, tenant, plan, ...rights } = fields;
    this.#requirePlan(plan);
    // Redis, where there is a choice: a file is parsed as a whole after each change.
    const target = this.#sources.findLast(([known]) => source === undefined || known === source)?.[1];
    if (target === undefined) throw new KeysFault('conflict', `access.keys has no ${source ?? 'file and no redis'}`);
    if (this.#sourcesOf(name).length > 0) throw new KeysFault('exists', `there is a key named ${name} already`);
    const { key, sha256 } = createKey();
    await this.#publish(await target.add({ name, tenant, plan, sha256, ...rights }));
    return { key, ...this.#find(name) };
  }

  /** Changes fields of a key; resolves with it as `create` does. Rejects with `KeysFault`. */
  async change(name: string, changes: KeyChanges): Promise<DescribedKey> {
    if (changes.plan !== undefined) this.#requirePlan(changes.plan);
    if (this.#sourcesOf(name).length > 1) throw new KeysFault('conflict', `the file and Redis have keys named ${name}`);
    await this.#inSources(name, (source) => source.change(name, changes));
    return this.#find(name);
  }

  /** Removes each key of the name; resolves as `create` does. Rejects with `KeysFault`. */
  revoke(name: string): Promise<void> {
    return this.#inSources(name, (source) => source.remove(name));
  }

  close(): void {
    this.#file?.close();
    this.#redis?.close();
  }

  get #sources(): readonly NamedSource[] {
    const file = this.#file === undefined ? [] : [['file', this.#file] as const];
    return this.#redis === undefined ? file : [...file, ['redis', this.#redis] as const];
  }

  #sourcesOf(name: string): readonly NamedSource[] {
    return this.#sources.filter(([, source]) => source.named(name).length > 0);
  }

  #find(name: string): DescribedKey {
    const [found] = this.#sources.flatMap(([source, keys]) =>
      keys.named(name).map((key) => this.#describe(key, source)),
    );
    if (found === undefined) throw new KeysFault('conflict', `another writer has removed the key ${name} meanwhile`);
    return found;
  }

  #describe(key: KeyRecord, source: DescribedKey['source']): DescribedKey {
    return { ...describeKey(key), source, inForce: this.#principals.isInForce(key, Date.now()) };
  }

  #requirePlan(plan: string): void {
    const { plans } = this.#principals;
    if (plans.has(plan)) return;
    throw new KeysFault('invalid', `plan: there is no such plan in access.plans${nearMissHint(plan, [...plans])}`);
  }

  /** Runs a change in each source that has the name; in all of them for a name that no valid entry here has. */
  async #inSources(name: string, run: (source: KeySource) => Promise<readonly KeysChange[]>): Promise<void> {
    const known = this.#sourcesOf(name);
    const asked = known.length > 0 ? known : this.#sources;
    const outcomes = await Promise.allSettled(asked.map(async ([, source]) => this.#publish(await run(source))));
    const faults = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    const fault = faults.find((one) => !isUnknown(one));
    if (fault !== undefined) throw fault;
    if (faults.length === asked.length) throw faults[0] ?? new KeysFault('unknown', `there is no key named ${name}`);
  }

  async #publish(changes: readonly KeysChange[]): Promise<void> {
    await Promise.all(changes.map(async (change) => this.#publishChange(change)));
  }
}

function isUnknown(fault: unknown): boolean {
  return fault instanceof KeysFault && fault.reason === 'unknown';
}
