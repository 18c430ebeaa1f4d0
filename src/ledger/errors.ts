/** Errors that the gateway itself answers (interface specification 2.6); those of nodes pass byte for byte. */

/**
 * Every fault the gateway reports, with its HTTP status and the interface's own `error_code`.
 * Faults below the operations (framework level) carry `web_framework_error`, as nodes do (protocol 3.2, 3.5).
 */
const faults = {
  malformed: { status: 400, code: 'web_framework_error' },
  /** Two parsers may find two ends of the request: bytes behind it on the connection are not read. */
  ambiguous: { status: 400, code: 'web_framework_error' },
  invalidInput: { status: 400, code: 'invalid_input' },
  unauthorized: { status: 401, code: 'web_framework_error' },
  disabled: { status: 403, code: 'api_disabled' },
  notFound: { status: 404, code: 'web_framework_error' },
  methodNotAllowed: { status: 405, code: 'web_framework_error' },
  requestTimeout: { status: 408, code: 'web_framework_error' },
  lengthRequired: { status: 411, code: 'web_framework_error' },
  payloadTooLarge: { status: 413, code: 'web_framework_error' },
  uriTooLong: { status: 414, code: 'web_framework_error' },
  unsupportedMediaType: { status: 415, code: 'web_framework_error' },
  expectationFailed: { status: 417, code: 'web_framework_error' },
  rateLimited: { status: 429, code: 'rate_limited' },
  headersTooLarge: { status: 431, code: 'web_framework_error' },
  internal: { status: 500, code: 'internal_error' },
  unavailable: { status: 503, code: 'internal_error' },
} as const;

type Fault = keyof typeof faults;

/** Why the gateway answers 503, as log lines have it: a closed set, without addresses. */
type UnavailableReason =
  | 'no node'
  | 'nodes failed'
  | 'holders away'
  | 'not reached'
  | 'other chain'
  | 'nodes full'
  | 'nodes paused'
  | 'time-out'
  | 'hung up'
  | 'overload'
  | 'connections'
  | 'streams'
  | 'bodies'
  | 'large answers'
  | 'broken off'
  | 'keys unread'
  | 'tokens'
  | 'not counted'
  | 'module unread';

interface FailedCall {
  readonly attempts: number;
  /** The node that was asked last. */
  readonly upstream: string | undefined;
}

/** Options of a `GatewayError`. `headers`: further headers of the answer, names and values in turn. */
interface GatewayErrorOptions extends ErrorOptions {
  readonly headers?: readonly string[];
  /** Present with a 503. */
  readonly reason?: UnavailableReason;
  /** Absent: no node was asked. */
  readonly call?: FailedCall;
  /** See `GatewayError.client`. */
  readonly client?: string;
}

/** A fault with a message fit for clients: it names the fault and the value, never an upstream's address. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError';
  readonly fault: Fault;
  readonly status: number;
  readonly code: string;
  /** More headers of the answer, flat. */
  readonly headers: readonly string[];
  readonly reason: UnavailableReason | undefined;
  readonly call: FailedCall | undefined;
  /** The client whose own bound refused the work, such as its share of the queue: the same work of another may succeed. */
  readonly client: string | undefined;

  constructor(fault: Fault, message: string, options?: GatewayErrorOptions) {
    super(message, options);
    this.fault = fault;
    this.status = faults[fault].status;
    this.code = faults[fault].code;
    this.headers = options?.headers ?? [];
    this.reason = options?.reason;
    this.call = options?.call;
    this.client = options?.client;
  }

  /** The specified body of the answer. `vm_error_code` is always a key, `null` when there is none (protocol 0). */
  get body(): string {
    return JSON.stringify({ message: this.message, error_code: this.code, vm_error_code: null });
  }

  /** Whether the rest of the request cannot be trusted to be read, so that the connection ends with the answer. */
  get closesConnection(): boolean {
    return closing.has(this.fault);
  }
}

const closing: ReadonlySet<Fault> = new Set(['ambiguous', 'payloadTooLarge', 'headersTooLarge', 'requestTimeout']);

/** Shortens client text for a message, so that an 8 kB path does not come back as an 8 kB error. */
export function quote(text: string): string {
  return JSON.stringify(text.length > 120 ? `${text.slice(0, 117)}...` : text);
}
