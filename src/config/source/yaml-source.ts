/** YAML text as plain values, variables and secret files interpolated, with their places in the text. */
import type * as Yaml from 'yaml';
import { createRequire } from 'node:module';
import type { Alias, Node, Scalar } from 'yaml';
import { type KeyPath, Positions, type Place, type Problem, type Where } from './problem.ts';

/** A parsed text. */
export interface YamlSource {
  /** `undefined`, with problems, when the text is not YAML. */
  readonly value: unknown;
  readonly problems: readonly Problem[];
  readonly positions: Positions;
}

const require = createRequire(import.meta.url);

/** Bounds the expansion of an alias that contains itself. */
const maxAliases = 100;

/** Parses `text`. `file`: its name in problems. `references`: the values of `${NAME}` and `${file:NAME}`. */
export function readYaml(text: string, file: string, references: References): YamlSource {
  const reader = new YamlReader(text, file, references);
  const { problems } = reader;
  const value = problems.length > 0 ? undefined : reader.read();
  return { value, problems, positions: new Positions((path) => reader.find(path)) };
}

class YamlReader {
  readonly problems: Problem[];
  /** Loaded with the first file: health checks every few seconds mostly have none. */
  readonly #yaml = require('yaml') as typeof Yaml;
  readonly #file: string;
  readonly #references: References;
  readonly #lines = new this.#yaml.LineCounter();
  readonly #document: Yaml.Document;
  #aliases = 0;

  constructor(text: string, file: string, references: References) {
    this.#file = file;
    this.#references = references;
    // `#readMapping` reports duplicate keys with their path.
    const options = { lineCounter: this.#lines, prettyErrors: false, uniqueKeys: false };
    this.#document = this.#yaml.parseDocument(text, options);
    this.problems = [...this.#document.errors, ...this.#document.warnings].map(({ pos, code, message }) => ({
      where: this.#whereOf(pos[0]),
      path: [],
      message: yamlMessage(code, message),
    }));
  }

  /** The plain value of the text; adds to `problems`. */
  read(): unknown {
    return this.#read(this.#document.contents, []);
  }

  #read(node: unknown, path: KeyPath): unknown {
    const { isAlias, isMap, isScalar, isSeq } = this.#yaml;
    if (isAlias(node)) return this.#readAlias(node, path);
    if (isMap(node)) return this.#readMapping(node.items, path);
    if (isSeq(node)) return node.items.map((item, index) => this.#read(item, [...path, index]));
    return isScalar(node) ? this.#readScalar(node, path) : null;
  }

  /** The place of `path`: of a key below an alias that at the anchor, of the alias itself its own. */
  find(path: KeyPath): Place | undefined {
    let at: { readonly key?: unknown; readonly value: unknown } | undefined = { value: this.#document.contents };
    for (const part of path) {
      const { isAlias, isMap, isSeq } = this.#yaml;
      const node: unknown = isAlias(at.value) ? at.value.resolve(this.#document) : at.value;
      if (isMap(node)) at = node.items.find(({ key }) => this.#nameOf(key) === part);
      else at = isSeq(node) && Object.hasOwn(node.items, part) ? { value: node.items[Number(part)] } : undefined;
      if (at === undefined) return undefined;
    }
    const keyOffset = (at.key as Node | undefined)?.range?.[0];
    // An empty value has the place of its key.
    const offset = (at.value as Node | null)?.range?.[0] ?? keyOffset ?? 0;
    const text = this.#yaml.isScalar(at.value) && typeof at.value.value === 'string' ? at.value.value : '';
    const template = hasReference(text) ? text : undefined;
    return { key: this.#whereOf(keyOffset ?? offset), value: this.#whereOf(offset), template };
  }

  #readMapping(items: readonly { key: unknown; value: unknown }[], path: KeyPath): unknown {
    const entries = new Map<string, { readonly value: unknown; readonly line: number; readonly column: number }>();
    for (const { key, value } of items) {
      const where = this.#whereOf((key as Node | null)?.range?.[0]);
      const name = this.#nameOf(key);
      const first = name === undefined ? undefined : entries.get(name);
      if (name === undefined || name === '') {
        this.problems.push({ where, path, message: 'a key must be a word' });
      } else if (first !== undefined) {
        const message = `the key is given twice, first at line ${first.line}, column ${first.column}`;
        this.problems.push({ where, path: [...path, name], message });
      } else {
        const { line, column } = where;
        entries.set(name, { value: this.#read(value, [...path, name]), line, column });
      }
    }
    // Not by assignment: `__proto__` must stay an ordinary, unknown key.
    return Object.fromEntries([...entries].map(([name, { value }]) => [name, value]));
  }

  #readScalar(scalar: Scalar, path: KeyPath): unknown {
    if (typeof scalar.value !== 'string') return scalar.value;
    const { value, isOfVariables, faults } = interpolate(scalar.value, this.#references);
    for (const message of faults) this.#report(scalar, path, message);
    return isOfVariables && scalar.type === 'PLAIN' ? plainValue(value) : value;
  }

  #readAlias(alias: Alias, path: KeyPath): unknown {
    this.#aliases += 1;
    if (this.#aliases > maxAliases) {
      if (this.#aliases === maxAliases + 1) this.#report(alias, [], 'too many aliases, or one that contains itself');
      return null;
    }
    const target = alias.resolve(this.#document);
    if (target === undefined) this.#report(alias, path, `there is no anchor &${alias.source} before this alias`);
    return this.#read(target, path);
  }

  /** Numbers and booleans as keys count as written: unknown keys like any other. */
  #nameOf(key: unknown): string | undefined {
    if (!this.#yaml.isScalar(key)) return undefined;
    return typeof key.value === 'string' ? key.value : key.source;
  }

  #report(node: Node, path: KeyPath, message: string): void {
    this.problems.push({ where: this.#whereOf(node.range?.[0]), path, message });
  }

  #whereOf(offset = 0): Where & { readonly kind: 'file' } {
    const { line, col } = this.#lines.linePos(offset);
    return { kind: 'file', file: this.#file, line: Math.max(1, line), column: Math.max(1, col) };
  }
}

/** An unquoted variable is typed like YAML: number, boolean, otherwise text. */
function plainValue(text: string): unknown {
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return Number(text);
  if (text === 'true' || text === 'false') return text === 'true';
  return text;
}

function yamlMessage(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'a config file holds one YAML document';
  return `not valid YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The values that a text refers to. */
export interface References {
  readonly env: Environment;
  /** The secret in a file, by its name as written. Throws an Error that names the file. Absent: files are refused. */
  readonly readSecret?: (name: string) => string;
}

interface Interpolated {
  readonly value: string;
  /** It contains a variable and no file: an unquoted one is typed. A secret of digits alone is text. */
  readonly isOfVariables: boolean;
  readonly faults: readonly string[];
}

const reference = /\$\$\{|\$\{([^}]*)(\}?)/g;
const variableName = /^[A-Za-z_]\w*$/;
const fileName = /^file:(.+)$/;

/** Whether `text` contains a variable or a file, so that only the text as written may be printed. */
function hasReference(text: string): boolean {
  return [...text.matchAll(reference)].some(([, name]) => name !== undefined);
}

/**
 * Replaces `${NAME}` by the variable, `${file:NAME}` by the secret in the file, `$${` by `${`. Faults name the variable or
 * the file, never a value.
 */
export function interpolate(text: string, { env, readSecret }: References): Interpolated {
  const faults: string[] = [];
  const kinds = new Set<'variable' | 'file'>();
  const value = text.replaceAll(reference, (match, name: string | undefined, end: string) => {
    if (name === undefined) return '${';
    const [, file] = fileName.exec(name) ?? [];
    kinds.add(file === undefined ? 'variable' : 'file');
    const isVariable = variableName.test(name);
    const found = isVariable && Object.hasOwn(env, name) ? env[name] : undefined;
    if (end === '') faults.push(`"${match}" has no closing brace (write $\${ for a literal \${)`);
    else if (file !== undefined && readSecret !== undefined) return secretIn(file, readSecret, faults) ?? match;
    else if (!isVariable) faults.push(`"${name}" is not the name of an environment variable`);
    else if (found === undefined) faults.push(`the environment variable ${name} is not set`);
    return found ?? match;
  });
  return { value, isOfVariables: kinds.has('variable') && !kinds.has('file'), faults };
}

function secretIn(file: string, read: (name: string) => string, faults: string[]): string | undefined {
  try {
    return read(file);
  } catch (error) {
    faults.push(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

/** The text that interpolates to `value`. */
export function escapeInterpolation(value: string): string {
  return value.replaceAll('${', '$${');
}
