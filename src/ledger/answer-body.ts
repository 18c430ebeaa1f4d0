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

  /** Its members, where it is an object; none otherwise. */
  get members(): Readonly<Record<string, unknown>> {
    const parsed = this.#parse();
    const value = parsed === 'invalid' ? undefined : parsed.value;
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  }

  /** Whether it is an object. */
  get isObject(): boolean {
    const parsed = this.#parse();
    return parsed !== 'invalid' && isPlainObject(parsed.value);
  }

  /** Whether it is the error body of a node, which has nothing but these members (protocol 3). */
  get isError(): boolean {
    const { members } = this;
    if (typeof members['message'] !== 'string' || typeof members['error_code'] !== 'string') return false;
    return Object.keys(members).every((name) => ofError.has(name));
  }

  /** Number of items, where it is an array. */
  get items(): number | undefined {
    const parsed = this.#parse();
    return parsed !== 'invalid' && Array.isArray(parsed.value) ? parsed.value.length : undefined;
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

function isPlainObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
