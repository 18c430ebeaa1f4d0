/** The outcome of one request to encode, the two errors by which the code below declines one, and the bound on its work. */

/** Why a request is left to a node. A closed set, fit for a metric's label. */
export const forwardReasons = [
  /** Needs the parameter types inside the bytecode. */
  'script payload',
  'encrypted payload',
  'unknown payload',
  /** A node may take either of two equal keys. */
  'duplicate key',
  'nested too deep',
  /** Parsing it would stall the event loop for every other request. */
  'too many values',
  /** The types of the parameters, or the arguments, take more work than one request is given. */
  'too many steps',
  /** A lone surrogate, U+FFFD, or a key that nodes keep for themselves: they may not read what is read here. */
  'doubtful text',
  /** The module's answer has no ABI, another module's, or one this version cannot read. */
  'unreadable abi',
  /** A struct without a certain layout: enum, native, or of a module that cannot be read. */
  'struct argument',
  /** A generic parameter standing for a struct: how nodes read it differs by version (protocol 5.9). */
  'generic argument',
  /** Sources disagree on their type tag numbers (protocol 5.6). */
  'signed integer',
  /** Function values, references to anything but a signer, signers inside of something. */
  'unsupported parameter',
  /** A type argument beyond what every node version reads alike. */
  'type argument',
  /** A spelling of a value that node versions read differently. */
  'doubtful value',
  /** For the gateway's own use: a `refused` outcome that a node could answer instead. */
  'refused locally',
  /** The encoder stopped itself, for instance at a length it cannot write. Never expected. */
  'encoder fault',
] as const;

type ForwardReason = (typeof forwardReasons)[number];

/** The `error_code` of a refusal: at the level of the JSON shape, or of its meaning (protocol 3.2, 3.4). */
export type RefusalCode = 'web_framework_error' | 'invalid_input';

/** The outcome of one request to encode. */
export type EncodeOutcome =
  | {
      readonly kind: 'encoded';
      /** The node's answer: `0x` and the lowercase hex of prefix ‖ BCS. */
      readonly hex: string;
      /** `0x1::coin::transfer`, canonical; `undefined` for a multisig payload that calls nothing. */
      readonly functionId: string | undefined;
      /** The function's parameters as text; another text for the same id means that its ABI changed. */
      readonly signature: string;
    }
  | { readonly kind: 'forward'; readonly reason: ForwardReason }
  /** Locally certain: status 400 with this code. A node's own message is better where one is reachable. */
  | { readonly kind: 'refused'; readonly message: string; readonly code: RefusalCode };

/** Thrown inside `encode/` when a node must decide. */
export class Handover extends Error {
  override readonly name = 'Handover';
  readonly reason: ForwardReason;

  constructor(reason: ForwardReason) {
    super(reason);
    this.reason = reason;
  }
}

/** Thrown inside `encode/` when every node would answer 400. */
export class EncodeRefusal extends Error {
  override readonly name = 'EncodeRefusal';
  readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string) {
    super(message);
    this.code = code;
  }
}

/** Takes some 3 ms at worst. A body of as many values as are read here takes less than half of them. */
export const maxSteps = 15_000;
/** Characters of the request's text that cost as much as one step. */
const charactersOfStep = 64;

/**
 * Counts the work of one encoding. Type arguments that replace type parameters are shared, so that a few kilobytes of ABI
 * describe types of any size; neither the ABI's length nor a count of structs bounds what a walk of them takes. Every walk
 * therefore takes a step for each token, node of a type, field and value that it visits.
 */
export class Steps {
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** Throws `Handover` where the bound is passed. */
  take(): void {
    this.#add(1);
  }

  /** Steps for going over a text a few times, to be taken ahead of that. Throws `Handover` where the bound is passed. */
  takeText(text: string): void {
    this.#add(Math.ceil(text.length / charactersOfStep));
  }

  #add(count: number): void {
    if (this.#taken + count > maxSteps) throw new Handover('too many steps');
    this.#taken += count;
  }
}
