/**
 * Requests of the mix of `simulate/shapes.ts`, seeded, as sample nodes answer them: routes by their shares, accounts and
 * calls by Zipf, versions and blocks as old as clients ask for them.
 */
import { exponential, randomOf, zipfOf, type Random } from '../../simulate/random.ts';
import { usualTraffic } from '../../simulate/shape.ts';
import { requestShapes, type RequestShape, type Route } from '../../simulate/shapes.ts';
import { blockHeightOf, versionsPerBlock } from '../../src/sample/ledger-clock.ts';
import { syntheticTransactionHash } from '../../src/sample/synthetic.ts';
import { viewBody } from './view-bytes.ts';

export interface MixRequest {
  readonly route: Route;
  readonly method: 'GET' | 'POST';
  /** Below the base path. */
  readonly path: string;
  readonly contentType?: string;
  readonly body?: string | Uint8Array;
}

export interface MixLedger {
  /** The head of the nodes so many milliseconds ago. */
  headAgo(ms: number): bigint;
}

/** A gateway and its clients are so far behind the nodes: no request asks for what clients cannot know yet. */
const behindMs = 600;
/** Transactions whose clients still ask for them. */
const maxSubmitted = 64;
/** Versions below every full node's window. */
const deepVersion = 1_000_000n;
const pageSize = 25n;

const json = 'application/json';
const bcsView = 'application/x.aptos.view_function+bcs';
const signed = 'application/x.aptos.signed_transaction+bcs';

/** The requests of all clients, one after another; endless. */
export class MixSource {
  readonly #random: Random;
  readonly #ledger: MixLedger;
  readonly #shapes: readonly RequestShape[];
  readonly #all: number;
  #submissions = 0;
  /** Hashes of submitted transactions, the newest last; `#unwaited` those that nobody waits for yet. */
  readonly #submitted: string[] = [];
  readonly #unwaited: string[] = [];

  /** `only`: one route; absent: all of the mix. */
  constructor({ seed, ledger, only }: { readonly seed: number; readonly ledger: MixLedger; readonly only?: Route }) {
    this.#random = randomOf(seed, only === undefined ? 7 : 8);
    this.#ledger = ledger;
    this.#shapes = requestShapes.filter(({ route }) => only === undefined || route === only);
    this.#all = this.#shapes.reduce((sum, { share }) => sum + share, 0);
  }

  next(): MixRequest {
    let left = this.#random() * this.#all;
    const shape = this.#shapes.find(({ share }) => (left -= share) < 0) ?? this.#shapes[0];
    if (shape === undefined) throw new Error('no such route');
    return { route: shape.route, ...this.#requestOf(shape) };
  }

  /** The answer to a submission: its hash is asked for from now on. */
  submitted(hash: string): void {
    for (const list of [this.#submitted, this.#unwaited]) {
      list.push(hash);
      if (list.length > maxSubmitted) list.shift();
    }
  }

  #requestOf(shape: RequestShape): Omit<MixRequest, 'route'> {
    switch (shape.route) {
      case 'view':
        return this.#view(shape);
      case 'ledgerInfo':
        return get('');
      case 'resource':
        return this.#resource(shape);
      case 'module':
        return get(`/accounts/0x1/module/${modules[this.#rank(shape) % modules.length]}${this.#pin(shape)}`);
      case 'account':
        return get(`/accounts/${this.#account(shape)}${this.#pin(shape)}`);
      case 'resources':
      case 'modules':
        return get(`/accounts/${this.#account(shape)}/${shape.route}${this.#pin(shape)}`);
      case 'balance':
        return get(`/accounts/${this.#account(shape)}/balance/0xa${this.#pin(shape)}`);
      case 'tableItem': {
        const body = `{"key_type":"address","value_type":"u128","key":"${this.#account(shape)}"}`;
        return { method: 'POST', path: `/tables/0x5a000001/item${this.#pin(shape)}`, contentType: json, body };
      }
      case 'blockByHeight':
        return get(`/blocks/by_height/${blockHeightOf(this.#committed())}`);
      case 'blockWithTransactions':
        return get(`/blocks/by_version/${firstOfBlock(this.#committed())}?with_transactions=true`);
      case 'byVersion':
        return get(`/transactions/by_version/${firstOfBlock(this.#committed()) + this.#part(shape)}`);
      case 'transactions':
        return get(`/transactions?start=${pageStart(this.#committed())}&limit=${pageSize}`);
      case 'auxiliaryInfo':
        return get(`/transactions/auxiliary_info?start_version=${pageStart(this.#committed())}&limit=${pageSize}`);
      case 'events': {
        // A stream of events has one for each block.
        const start = pageStart(blockHeightOf(this.#committed()));
        return get(`/accounts/${accountOf(Number(this.#part(shape)))}/events/2?start=${start}&limit=${pageSize}`);
      }
      case 'accountTransactions':
        return get(`/accounts/${this.#account(shape)}/transactions?limit=${pageSize}`);
      case 'byHash':
        return get(`/transactions/by_hash/${this.#hash(shape, this.#submitted)}`);
      case 'waitByHash':
        return get(`/transactions/wait_by_hash/${this.#hash(shape, this.#unwaited)}`);
      case 'submit':
        return { method: 'POST', path: '/transactions', contentType: signed, body: this.#signedBytes() };
      case 'simulate':
        return { method: 'POST', path: '/transactions/simulate', contentType: signed, body: this.#signedBytes() };
      case 'estimateGasPrice':
        return get('/estimate_gas_price');
      case 'other':
        return get(this.#random() < 0.5 ? '/info' : '/spec.json');
    }
  }

  /** Half of the calls in JSON, half as the public SDK sends them by default. */
  #view(shape: RequestShape): Omit<MixRequest, 'route'> {
    const call = this.#rank(shape);
    const path = `/view${this.#pin(shape)}`;
    const argument = accountOf(call).padEnd(100, '.');
    if (this.#random() < 0.5) return { method: 'POST', path, contentType: bcsView, body: viewBody(argument) };
    const body = `{"function":"0x1::ledgergate_sample::echo","type_arguments":[],"arguments":["${argument}"]}`;
    return { method: 'POST', path, contentType: json, body };
  }

  #resource(shape: RequestShape): Omit<MixRequest, 'route'> {
    const deep = shape.subjects.kind === 'state' ? shape.subjects.deep : 0;
    if (this.#random() < deep) {
      const rank = zipfOf(usualTraffic.links, usualTraffic.linkSkew).draw(this.#random);
      const version = deepVersion + BigInt(rank);
      return get(`/accounts/${accountOf(rank)}/resource/${padded(400)}?ledger_version=${version}`);
    }
    let left = this.#random();
    const { bytes = 400 } = usualTraffic.types.find(({ share }) => (left -= share) < 0) ?? {};
    return get(`/accounts/${this.#account(shape)}/resource/${padded(bytes)}${this.#pin(shape)}`);
  }

  #rank({ subjects }: RequestShape): number {
    const of = subjects.kind === 'state' ? subjects.of : usualTraffic.accounts;
    return zipfOf(of, usualTraffic.accountSkew).draw(this.#random);
  }

  #account(shape: RequestShape): string {
    return accountOf(this.#rank(shape));
  }

  /** A version that was shown a moment ago, for the share of requests that name one. */
  #pin({ subjects }: RequestShape): string {
    if (subjects.kind !== 'state') return '';
    const pinned = (subjects.pinned - subjects.deep) / (1 - subjects.deep);
    if (this.#random() >= pinned) return '';
    const ago = behindMs + exponential(this.#random()) * usualTraffic.headAgeMs;
    return `?ledger_version=${this.#ledger.headAgo(ago)}`;
  }

  /** The last version of a block that was committed a moment ago. */
  #committed(): bigint {
    return this.#ledger.headAgo(behindMs + exponential(this.#random()) * usualTraffic.hashAgeMs);
  }

  #part({ subjects }: RequestShape): bigint {
    return BigInt(Math.floor(this.#random() * (subjects.kind === 'history' ? subjects.perBlock : 1)));
  }

  /** The oldest of the own ones, or else a transaction that anybody may ask for. */
  #hash({ subjects }: RequestShape, own: string[]): string {
    const isOwn = subjects.kind === 'hash' && this.#random() < subjects.own;
    return (isOwn ? own.shift() : undefined) ?? syntheticTransactionHash(firstOfBlock(this.#committed()));
  }

  #signedBytes(): Uint8Array {
    this.#submissions += 1;
    return Buffer.from(`signed transaction ${this.#submissions} ${this.#random()}`.padEnd(300, '.'));
  }
}

/** Modules of many sizes that were recorded. */
const modules = ['coin', 'account', 'object', 'fungible_asset', 'stake', 'aptos_account', 'string', 'table', 'event'];

function get(path: string): Omit<MixRequest, 'route'> {
  return { method: 'GET', path };
}

function padded(bytes: number): string {
  return `0x1::ledgergate_sample::Padded${bytes}`;
}

function accountOf(rank: number): string {
  return `0x5a${rank.toString(16).padStart(6, '0')}`;
}

function firstOfBlock(version: bigint): bigint {
  return blockHeightOf(version) * versionsPerBlock;
}

/** Clients that follow a list ask for its pages one after another. */
function pageStart(number: bigint): bigint {
  return number - (number % pageSize);
}
