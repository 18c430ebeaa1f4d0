/** Bodies of answers: their form (protocol 2.3), and their JSON, read once. */
import { type ItemRange, JsonSkim, type JsonFacts } from './json-skim.ts';
import { bodyTurns } from './body-turns.ts';

/** The encoding of an answer. */
export type AnswerForm = 'json' | 'bcs';

/** Reads forms. */
export const AnswerForm = {
  /** The form that a `Content-Type` promises; `undefined` for anything that no node sends. */
  find(contentType: string | undefined): AnswerForm | undefined {
    // The exact texts of nodes, ahead of the general parser.
    if (contentType === 'application/json') return 'json';
    if (contentType === 'application/x-bcs') return 'bcs';
    const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase();
    if (mediaType === 'application/json') return 'json';
    return mediaType === 'application/x-bcs' ? 'bcs' : undefined;
  },
} as const;

/** The body of a success, in its form. */
export interface AnswerContent {
  readonly form: AnswerForm;
  readonly body: Buffer;
  readonly json: JsonBody;
}

/** The items of a JSON array. `known`: all of a small one; of a large one the first and the last, unless they are large. */
interface JsonList {
  readonly count: number;
  readonly known: readonly (readonly [index: number, item: unknown])[];
}

/** In bytes. Up to here JSON is parsed at once, in some 0.4 ms at worst. */
const largestParsed = 16 * 1024;
/** Up to here it is skimmed at once, and in pieces of this length above: some 0.5 ms each at worst. */
const pieceBytes = 64 * 1024;
/** Larger JSON is not read at all. */
const largestRead = 1024 * 1024;

/** One body (bytes) and the facts of its JSON, read once. Never throws: a body that is no JSON reports `isJson` false. */
export class JsonBody {
  readonly #bytes: Buffer;
  #facts: BodyFacts | 'invalid' | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /**
   * Reads a large body in the turns of `client`; afterwards, the facts are there. `undefined`: small or opaque, so that
   * facts are read at once, or never.
   */
  readInTurns(client: string): Promise<void> | undefined {
    if (this.#bytes.length <= pieceBytes || this.isOpaque) return undefined;
    return this.#skim(client);
  }

  /** The facts of a JSON text of any size, read in the turns of `client`. `undefined`: no JSON. */
  static async skim(bytes: Buffer, client: string, keepsItems = false): Promise<JsonFacts | undefined> {
    const skim = new JsonSkim(bytes, keepsItems);
    while (!(await bodyTurns.run(client, () => skim.step(pieceBytes))));
    return skim.facts;
  }

  /**
   * The places of an array's items in a text of any size, read in the turns of `client`. `undefined`: no JSON, no array,
   * or an item is neither an object nor an array.
   */
  static async items(bytes: Buffer, client: string): Promise<readonly ItemRange[] | undefined> {
    const { items, ranges } = (await JsonBody.skim(bytes, client, true)) ?? nothing;
    return items === ranges?.length ? ranges : undefined;
  }

  /** Above the size that is read. */
  get isOpaque(): boolean {
    return this.#bytes.length > largestRead;
  }

  /** Whether it is JSON to its end. */
  get isJson(): boolean {
    return this.#read() !== undefined;
  }

  /** Whether its end shows that nothing is missing: a number may go on, whatever its last digit is. */
  get isClosed(): boolean {
    const facts = this.#read();
    return facts !== undefined && facts.kind !== 'number';
  }

  /** Its value; `undefined` for a body that is no JSON, or above 16 kB. */
  get value(): unknown {
    return this.#read()?.value;
  }

  /** Whether all its members are known; of an object above 16 kB those are that answers are judged by. */
  get isWhole(): boolean {
    return this.#bytes.length <= largestParsed;
  }

  /** Its members, where it is an object; none otherwise. */
  get members(): Members {
    return this.#read()?.members ?? none;
  }

  get isObject(): boolean {
    return this.#read()?.kind === 'object';
  }

  /** Whether it is the error body of a node, which has nothing but these members (protocol 3). */
  get isError(): boolean {
    const { members, names } = this.#read() ?? nothing;
    if (typeof members['message'] !== 'string' || typeof members['error_code'] !== 'string') return false;
    return (names ?? Object.keys(members)).every((name) => ofError.has(name));
  }

  /** Number of its items, where it is an array. */
  get count(): number | undefined {
    return this.#read()?.items;
  }

  /** Its items, where it is an array. */
  get list(): JsonList | undefined {
    const { items, value, edges = [] } = this.#read() ?? nothing;
    if (items === undefined) return undefined;
    if (Array.isArray(value))
      return { count: items, known: value.map((item: unknown, index) => [index, item] as const) };
    const read = edges.filter(([, from, to]) => to - from <= largestParsed);
    return { count: items, known: read.map(([index, from, to]) => [index, parse(this.#bytes.subarray(from, to))]) };
  }

  #read(): BodyFacts | undefined {
    this.#facts ??= (this.isOpaque ? undefined : this.#readAtOnce()) ?? 'invalid';
    return this.#facts === 'invalid' ? undefined : this.#facts;
  }

  #readAtOnce(): BodyFacts | undefined {
    if (this.#bytes.length <= largestParsed) return parsedFacts(this.#bytes);
    const skim = new JsonSkim(this.#bytes);
    skim.step(Infinity);
    return skim.facts;
  }

  async #skim(client: string): Promise<void> {
    this.#facts = (await JsonBody.skim(this.#bytes, client)) ?? 'invalid';
  }
}

const none: Members = {};
const nothing: Partial<BodyFacts> & Pick<BodyFacts, 'members'> = { members: none };

function parsedFacts(bytes: Buffer): BodyFacts | undefined {
  const value = parse(bytes);
  if (value === undefined) return undefined;
  if (Array.isArray(value)) return { kind: 'array', members: none, items: value.length, value };
  if (typeof value !== 'object' || value === null) {
    return { kind: typeof value === 'number' ? 'number' : 'other', members: none, items: undefined, value };
  }
  return { kind: 'object', members: value as Members, items: undefined, value };
}

/** `undefined`: no JSON. */
function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

/** The facts of JSON that was skimmed, or parsed whole: then the members are all, and their names are read from them. */
type BodyFacts = Omit<JsonFacts, 'names'> & Partial<Pick<JsonFacts, 'names'>> & { readonly value?: unknown };

type Members = Readonly<Record<string, unknown>>;

const ofError: ReadonlySet<string> = new Set(['message', 'error_code', 'vm_error_code']);
