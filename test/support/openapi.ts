/** The OpenAPI document of docs/, and whether answers are as it says. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { parse } from 'yaml';
import type { Reply } from './gateway.ts';

export const documentFile = fileURLToPath(new URL('../../docs/openapi.yaml', import.meta.url));

type Node = Readonly<Record<string, unknown>>;

/** A value of the document, and where it stands as a JSON pointer, references followed. */
interface Place {
  readonly pointer: string;
  readonly value: Node;
}

export interface Operation {
  readonly id: string;
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';
  readonly path: string;
  /** The route that takes it, as metrics call it; `undefined` on the operations port. */
  readonly route: string | undefined;
  readonly tag: string;
  /** Its path with the examples of its parameters in it, without the query. */
  readonly target: string;
  /** Statuses that it describes, `default` among them. */
  readonly statuses: readonly string[];
  readonly place: Place;
}

/** Headers of the connection, or that say how the bytes travel. */
const transport = new Set(['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'transfer-encoding']);
const methods = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options'] as const;

export class OpenApi {
  readonly root: Node;
  readonly operations: readonly Operation[];
  /** `operation status` of every answer that was looked at. */
  readonly seenStatuses = new Set<string>();
  /** `response header`, the response by its name or place, of every header that an answer had. */
  readonly seenHeaders = new Set<string>();
  /** What was described for the answers that were looked at. */
  readonly describedHeaders = new Set<string>();
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  /** Header values are text: numbers among them are read as such. */
  readonly #headerAjv = new Ajv2020({ strict: false, validateFormats: false, coerceTypes: true });
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(text = readFileSync(documentFile, 'utf8')) {
    this.root = parse(text) as Node;
    for (const ajv of [this.#ajv, this.#headerAjv]) ajv.addSchema(this.root, 'document');
    this.operations = Object.keys(this.root['paths'] as Node).flatMap((path) => this.#operationsOf(path));
  }

  operation(id: string): Operation {
    const found = this.operations.find((operation) => operation.id === id);
    if (found === undefined) throw new Error(`the document has no operation ${id}`);
    return found;
  }

  /** Everything about an answer that is not as described. */
  problemsOf(operation: Operation, reply: Reply, { isLedgerKnown = true } = {}): readonly string[] {
    const status = operation.statuses.includes(String(reply.status)) ? String(reply.status) : 'default';
    if (!operation.statuses.includes(status)) return [`status ${reply.status} is not described`];
    this.seenStatuses.add(`${operation.id} ${status}`);
    const response = this.#at(`${operation.place.pointer}/responses/${status}`);
    const isConnectionGone = status === 'default' && reply.headers['connection'] === 'close';
    return [
      ...this.#headerProblems(response, reply, isLedgerKnown && !isConnectionGone),
      ...this.#bodyProblems(operation, response, reply),
    ].map((problem) => `${operation.id} ${reply.status}: ${problem}`);
  }

  /** Everything about a request's JSON body that is not as described. */
  requestProblems(operation: Operation, body: unknown): readonly string[] {
    const pointer = `${operation.place.pointer}/requestBody/content/application~1json/schema`;
    return this.#schemaProblems(this.#ajv, pointer, body);
  }

  /** Whether any answer may have this header with this value. */
  headerProblems(name: string, value: string): readonly string[] {
    const pointers = this.#headerPointers(name);
    if (pointers.size === 0) return [`there is no header ${name}`];
    const problems = [...pointers].map((pointer) =>
      this.#schemaProblems(this.#headerAjv, `${pointer}/schema`, { value }),
    );
    return problems.some((found) => found.length === 0) ? [] : problems.flat();
  }

  /** Where headers of that name are described. */
  #headerPointers(name: string): ReadonlySet<string> {
    const found = this.operations.flatMap(({ statuses, place }) =>
      statuses.flatMap((status) => {
        const response = this.#at(`${place.pointer}/responses/${status}`);
        const described = Object.keys(response.value['headers'] ?? {}).includes(name);
        return described ? [this.#at(`${response.pointer}/headers/${escaped(name)}`).pointer] : [];
      }),
    );
    return new Set(found);
  }

  #operationsOf(path: string): readonly Operation[] {
    const item = this.#at(`/paths/${escaped(path)}`);
    const found = methods.filter((method) => item.value[method] !== undefined);
    return found.map((method): Operation => {
      const place = this.#at(`${item.pointer}/${method}`);
      const { operationId, responses, tags } = place.value;
      return {
        id: String(operationId),
        method: method.toUpperCase() as Operation['method'],
        path,
        route: place.value['x-ledgergate-route'] as string | undefined,
        tag: (tags as readonly string[])[0] ?? '',
        target: this.#targetOf(path, [item, place]),
        statuses: Object.keys(responses as Node),
        place,
      };
    });
  }

  #targetOf(path: string, places: readonly Place[]): string {
    const parameters = places.flatMap(({ pointer, value }) =>
      ((value['parameters'] ?? []) as readonly unknown[]).map((_, at) => this.#at(`${pointer}/parameters/${at}`).value),
    );
    return path.replaceAll(/\{([^}]+)\}/g, (_, name: string) => {
      const parameter = parameters.find((one) => one['name'] === name && one['in'] === 'path');
      if (typeof parameter?.['example'] !== 'string') throw new Error(`${path} has no example of ${name}`);
      return parameter['example'];
    });
  }

  #headerProblems(response: Place, reply: Reply, isLedgerKnown: boolean): readonly string[] {
    const described = Object.keys(response.value['headers'] ?? {});
    const known = new Set(described.map((name) => name.toLowerCase()));
    const missing = described.flatMap((name) => {
      const header = this.#at(`${response.pointer}/headers/${escaped(name)}`);
      const value = reply.headers[name.toLowerCase()];
      this.describedHeaders.add(`${response.pointer} ${name}`);
      if (value === undefined) {
        const isLedgers = header.value['x-ledgergate-known'] === true && isLedgerKnown;
        return header.value['required'] === true || isLedgers ? [`the header ${name} is missing`] : [];
      }
      this.seenHeaders.add(`${response.pointer} ${name}`);
      const wrong = this.#schemaProblems(this.#headerAjv, `${header.pointer}/schema`, { value });
      return wrong.map((problem) => `${name}: ${value}: ${problem}`);
    });
    const more = Object.keys(reply.headers).filter((name) => !transport.has(name) && !known.has(name));
    return [...missing, ...more.map((name) => `the header ${name} is not described`)];
  }

  #bodyProblems({ method }: Operation, response: Place, { headers, body, text }: Reply): readonly string[] {
    const content = response.value['content'] as Node | undefined;
    if (content === undefined || method === 'HEAD') return body.length === 0 ? [] : ['there is a body'];
    const type = (headers['content-type'] ?? '').split(';', 1)[0]?.toLowerCase() ?? '';
    const described = [type, '*/*'].find((candidate) => content[candidate] !== undefined);
    if (described === undefined) return [`the content type ${headers['content-type']} is not described`];
    const pointer = `${response.pointer}/content/${escaped(described)}/schema`;
    if (headers['content-encoding'] !== undefined) return [];
    return this.#schemaProblems(this.#ajv, pointer, type === 'application/json' ? (JSON.parse(text) as unknown) : text);
  }

  /** Of a header, `data` is `{ value }`, so that it can be read as a number. */
  #schemaProblems(ajv: Ajv2020, pointer: string, data: unknown): readonly string[] {
    const isHeader = ajv === this.#headerAjv;
    const schema = { $ref: `document#${encodeURI(pointer)}` };
    let validate = this.#validators.get(pointer);
    if (validate === undefined) {
      validate = ajv.compile(isHeader ? { type: 'object', properties: { value: schema } } : schema);
      this.#validators.set(pointer, validate);
    }
    if (validate(data)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
  }

  /** Follows references, so that a component has one place wherever it is used. */
  #at(pointer: string): Place {
    let place: Place = { pointer: '', value: this.root };
    for (const part of pointer.split('/').slice(1)) {
      const value = place.value[part.replaceAll('~1', '/').replaceAll('~0', '~')] as Node | undefined;
      if (value === undefined) throw new Error(`the document has nothing at ${pointer}`);
      place = { pointer: `${place.pointer}/${part}`, value };
      const reference = value['$ref'];
      if (typeof reference === 'string') place = this.#at(reference.slice(1));
    }
    return place;
  }
}

function escaped(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1');
}
