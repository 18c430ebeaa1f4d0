/** `POST /view`: recorded view functions, and two synthetic ones that show what was asked (protocol 6). */
import { Address, FunctionId, isIdentifier, JsonValue } from '../../ledger/index.ts';
import { answerIn, jsonAnswer, type SampleAnswer } from '../answer.ts';
import { textMember, type SampleCall } from '../call.ts';
import { bareError, nodeError } from '../node-error.ts';
import { findModule, findView } from '../recorded.ts';

const bcsBody = 'application/x.aptos.view_function+bcs';

/** Any number above zero; it depends on the answer, so that a test detects a header of another answer. */
const gasPerByte = 7n;

/** A call of a view function; `argumentsJson` is the arguments array as the client wrote it. */
interface ViewRequest {
  readonly id: FunctionId;
  readonly argumentsJson: string;
}

/** `POST /view`. */
export function answerView(call: SampleCall): SampleAnswer {
  const type = call.expectContentType((text) => text === 'application/json' || text === bcsBody);
  const pinned = call.pinned();
  const fromJson = type === bcsBody ? undefined : readJson(call);
  const version = call.resolve(pinned);
  const request = fromJson ?? readBcs(call.body);
  const name = FunctionId.format(request.id);
  if (name === '0x1::ledgergate_sample::version') return withGas(call, `["${version}"]`);
  if (name === '0x1::ledgergate_sample::echo') return withGas(call, request.argumentsJson);
  const recorded = findView(name);
  if (recorded === undefined) throw notFound(request.id);
  return recorded.status === 200 ? withGas(call, recorded.body) : jsonAnswer(recorded.body, recorded.status);
}

function withGas(call: SampleCall, body: string): SampleAnswer {
  return { ...answerIn(call.form, body), gasUsed: gasPerByte * BigInt(body.length) };
}

function readJson(call: SampleCall): ViewRequest {
  const request = call.jsonBody(['function', 'type_arguments', 'arguments']);
  const text = textMember(request, 'function') ?? '';
  const id = FunctionId.find(text);
  if (id === undefined) throw bareError(400, 'web_framework_error', `Invalid entry function ID ${text}`);
  // The arguments as they were written, where they are the last member, as in the gateway's own form.
  const isLast = [...request.members.keys()].at(-1) === 'arguments';
  const written = isLast ? /"arguments"\s*:\s*(\[.*\])\s*\}\s*$/s.exec(call.body.toString())?.[1] : undefined;
  return { id, argumentsJson: written ?? JsonValue.canonical(request.members.get('arguments') ?? null) };
}

/** A BCS body has no JSON arguments: `echo` then shows the BCS bytes of each as hex. Type arguments are not read. */
function readBcs(body: Uint8Array): ViewRequest {
  const reader = new ByteReader(body);
  const address = Address.ofDigits(Buffer.from(reader.take(32)).toString('hex') || '0');
  const module = reader.takeText();
  const name = reader.takeText();
  const typeArguments = reader.takeLength();
  const count = typeArguments === 0 ? reader.takeLength() : 0;
  const values = Array.from({ length: Math.min(count, body.length) }, () => {
    return `0x${Buffer.from(reader.take(reader.takeLength())).toString('hex')}`;
  });
  if (reader.failed || !isIdentifier(module) || !isIdentifier(name)) {
    throw nodeError(400, 'invalid_input', 'Failed to deserialize input into ViewRequest');
  }
  return { id: { address, module, name }, argumentsJson: JSON.stringify(values) };
}

function notFound(id: FunctionId): Error {
  const message =
    findModule(id.address, id.module) === undefined
      ? `Module ModuleId { address: ${id.address}, name: Identifier("${id.module}") } can't be found`
      : `could not find view function by ${FunctionId.format(id)}`;
  return nodeError(400, 'invalid_input', message);
}

/** Reads BCS bytes from front to back. The first overrun is final: `failed` stays set and what follows is empty. */
class ByteReader {
  readonly #bytes: Uint8Array;
  #at = 0;
  failed = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  take(length: number): Uint8Array {
    if (this.failed || length > this.#bytes.length - this.#at) {
      this.failed = true;
      return new Uint8Array();
    }
    this.#at += length;
    return this.#bytes.subarray(this.#at - length, this.#at);
  }

  /** A ULEB128 number of at most 32 bits: a length, or a variant. */
  takeLength(): number {
    let value = 0;
    for (let shift = 0; shift < 35; shift += 7) {
      const byte = this.take(1)[0] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    this.failed = true;
    return 0;
  }

  takeText(): string {
    return Buffer.from(this.take(this.takeLength())).toString();
  }
}
