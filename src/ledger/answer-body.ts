/** Bodies of answers: their form (protocol 2.3), and their JSON, parsed once. */

/** The encoding of an answer. */
export type AnswerForm = 'json' | 'bcs';

/** The form that a `Content-Type` promises; `undefined` for anything that no node sends. */
export function findForm(contentType: string | undefined): AnswerForm | undefined {
  // The exact texts of nodes, ahead of the general parser.
  if (contentType === 'application/json') return 'json';
  if (contentType === 'application/x-bcs') return 'bcs';
  const mediaType = contentType?.split(';', 1)[0]?.trim().toLowerCase();
  if (mediaType === 'application/json') return 'json';
  return mediaType === 'application/x-bcs' ? 'bcs' : undefined;
}

/** The body of a success, in its form. */
export interface AnswerContent {
  readonly form: AnswerForm;
  readonly body: Buffer;
  readonly json: JsonBody;
}

/** Parsing a megabyte blocks the event loop for some ten milliseconds. */
const largestParsed = 1024 * 1024;

/** One body (bytes) and its lazily parsed JSON. Never throws: a body that is no JSON reports `isJson` false. */
export class JsonBody {
  readonly #bytes: Buffer;
  #parsed: { readonly value: unknown } | 'invalid' | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Above the size that is parsed. */
  get isOpaque(): boolean {
    return this.#bytes.length > largestParsed;
  }

  /** Whether it is JSON to its end. */
  get isJson(): boolean {
    return this.#parse() !== 'invalid';
  }

  /** Whether its end shows that nothing is missing: a number may go on, whatever its last digit is. */
  get isClosed(): boolean {
    const parsed = this.#parse();
    return parsed !== 'invalid' && typeof parsed.value !== 'number';
  }

  /** Its value; `undefined` for a body that is no JSON. */
  get value(): unknown {
    const parsed = this.#parse();
    return parsed === 'invalid' ? undefined : parsed.value;
  }

  /** `membersOf` its value. */
  get members(): Members {
    return membersOf(this.value);
  }

  /** Whether it is an object. */
  get isObject(): boolean {
    const { value } = this;
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  }

  /** Whether it is the error body of a node, which has nothing but these members (protocol 3). */
  get isError(): boolean {
    const { members } = this;
    if (typeof members['message'] !== 'string' || typeof members['error_code'] !== 'string') return false;
    return Object.keys(members).every((name) => ofError.has(name));
  }

  /** Its items, where it is an array. */
  get items(): readonly unknown[] | undefined {
    const { value } = this;
    return Array.isArray(value) ? value : undefined;
  }

  #parse(): { readonly value: unknown } | 'invalid' {
    if (this.#parsed !== undefined) return this.#parsed;
    try {
      this.#parsed = this.isOpaque ? 'invalid' : { value: JSON.parse(this.#bytes.toString()) as unknown };
    } catch {
      this.#parsed = 'invalid';
    }
    return this.#parsed;
  }
}

const ofError: ReadonlySet<string> = new Set(['message', 'error_code', 'vm_error_code']);

/** The members of a JSON object. */
export type Members = Readonly<Record<string, unknown>>;

/** The members of a JSON value, where it is an object; none otherwise. */
export function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? (value as Members) : none;
}

const none: Members = {};
