/** A node that serves the modules a test gives it, counts what it is asked, and encodes as the test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { compileModule } from '../../src/encode/abi.ts';
import { Address } from '../../src/ledger/type-tag.ts';
import { Dialect } from '../../src/ledger/ledger-headers.ts';
import { ledgerInfo } from './ledger-info.ts';
import { errorBody } from './error-body.ts';

export interface EncodeAnswer {
  readonly status: number;
  readonly body: string;
  /** Default: as real nodes do, none on a parse failure. */
  readonly ledgerHeaders?: boolean;
}

export interface EncodeRequest {
  readonly body: Buffer;
  readonly headers: IncomingMessage['headers'];
}

/** `reset` ends the connection without an answer. */
export type Encode = (request: EncodeRequest) => EncodeAnswer | 'reset' | Promise<EncodeAnswer | 'reset'>;

export class VectorNode {
  /** What came to encode_submission, in order. */
  readonly encodes: EncodeRequest[] = [];
  /** Reads of modules at head. */
  moduleReads = 0;
  /** Answers to reads of modules at head wait for it. */
  holdModules: Promise<unknown> = Promise.resolve();
  /** Reads of modules at a version that they name. */
  pinnedReads = 0;
  /** What such reads wait for, and whether they fail then. */
  holdPinned: Promise<'answer' | 'fail'> = Promise.resolve('answer');
  /** The ledger version of its answers. */
  head = 1000n;
  encode: Encode = () => refusal('invalid_input', 'the test gave no answer');
  /** Bodies of module answers by `0x1::coin`, each from the version on at which it was published; newest first. */
  readonly #modules = new Map<string, { readonly from: bigint; readonly body: string }[]>();
  /** Of all its answers from now on. */
  chainId: number;
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  constructor(chainId: number) {
    this.chainId = chainId;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`;
  }

  /** Puts a module there at the node's head, or another version of it: the body of a module answer. */
  publish(moduleAnswer: string): void {
    const { address, name } = compileModule(moduleAnswer);
    if (address === undefined || name === undefined) throw new Error(`no module: ${moduleAnswer}`);
    const key = `${address}::${name}`;
    const published = this.#modules.get(key) ?? [];
    // What is there from the beginning is there at every version.
    const from = published.length === 0 ? 0n : this.head;
    this.#modules.set(key, [{ from, body: moduleAnswer }, ...published]);
  }

  async listen(): Promise<void> {
    this.#server.keepAliveTimeout = 0;
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Drops its connections; new ones are refused. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { url = '', method, headers } = request;
    const sent = await buffer(request);
    if (method === 'POST' && url === '/v1/transactions/encode_submission') {
      const received = { body: sent, headers };
      this.encodes.push(received);
      const answer = await this.encode(received);
      if (answer === 'reset') request.socket.resetAndDestroy();
      else this.#write(response, answer);
      return;
    }
    const [, address = '', name = '', version] =
      /^\/v1\/accounts\/([^/]+)\/module\/([^/?]+)(?:\?ledger_version=(\d+))?$/.exec(url) ?? [];
    if (address === '') {
      this.#write(response, url === '/v1' ? { status: 200, body: '{}' } : notFound);
      return;
    }
    const published = this.#modules.get(`${Address.find(address)}::${decodeURIComponent(name)}`);
    const at = version === undefined ? this.head : BigInt(version);
    const module = published?.find(({ from }) => from <= at)?.body;
    if (version === undefined) {
      this.moduleReads += 1;
      await this.holdModules;
    } else {
      this.pinnedReads += 1;
      if ((await this.holdPinned) === 'fail') {
        request.socket.resetAndDestroy();
        return;
      }
    }
    this.#write(response, module === undefined ? moduleNotFound : { status: 200, body: module });
  }

  #write(
    response: ServerResponse,
    { status, body, ledgerHeaders = !body.includes('web_framework_error') }: EncodeAnswer,
  ) {
    const head = ['Content-Type', 'application/json', 'Content-Length', String(Buffer.byteLength(body))];
    const info = ledgerInfo({ version: this.head, chainId: this.chainId });
    if (ledgerHeaders) head.push(...new Dialect('node').list(info));
    response.writeHead(status, head).end(body);
  }
}

/** The answer with the module of this name at `0xcafe`; `functions`: the parameters of its entry functions. */
export function moduleWith(name: string, functions: Readonly<Record<string, readonly string[]>>): string {
  const exposed = Object.entries(functions).map(([called, params]) => {
    return { name: called, is_entry: true, generic_type_params: [], params };
  });
  return JSON.stringify({
    bytecode: '0x',
    abi: { address: '0xcafe', name, exposed_functions: exposed, structs: [] },
  });
}

/** A 400 in the interface's words. */
export function refusal(code: 'invalid_input' | 'web_framework_error', message: string): EncodeAnswer {
  return { status: 400, body: errorBody(code, message) };
}

export const overloaded: EncodeAnswer = {
  status: 503,
  body: errorBody('overloaded', 'Server is shedding load; please retry shortly'),
  ledgerHeaders: false,
};

const notFound: EncodeAnswer = { status: 404, body: errorBody('web_framework_error', 'not found') };
const moduleNotFound: EncodeAnswer = { status: 404, body: errorBody('module_not_found', 'Module not found by ...') };

/** Starts a node that is closed after the test. */
export async function vectorNode(t: TestContext, chainId = 4): Promise<VectorNode> {
  const node = new VectorNode(chainId);
  await node.listen();
  t.after(() => node.close());
  return node;
}
