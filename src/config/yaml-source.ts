/** Reads a YAML text into plain values, putting environment variables in and remembering where everything stood. */
import { createRequire } from 'node:module';
import type * as Yaml from 'yaml';
import type { Alias, Document, Node, Scalar } from 'yaml';
import { type Environment, interpolate } from './interpolate.ts';
import type { KeyPath } from './key-path.ts';
import type { Positions } from './positions.ts';
import type { Problem, Where } from './problem.ts';

export interface YamlSource {
  readonly value: unknown;
  readonly problems: readonly Problem[];
}

const require = createRequire(import.meta.url);

/** Loaded with the first file: a start by flags alone has none, and a check every few seconds mostly none either. */
const loadYaml = (): typeof Yaml => require('yaml') as typeof Yaml;

/** More aliases than any honest config has: a bound on what an alias that holds itself can expand to. */
const maxAliases = 100;

/** Places go to `positions`. When the text is not YAML at all, `value` is `undefined`. */
export function readYaml(text: string, file: string, env: Environment, positions: Positions): YamlSource {
  const yaml = loadYaml();
  const lines = new yaml.LineCounter();
  const document = yaml.parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const whereOf = (offset: number): Where => {
    const { line, col } = lines.linePos(offset);
    return { kind: 'file', file, line: Math.max(1, line), column: Math.max(1, col) };
  };
  const faults: Problem[] = [...document.errors, ...document.warnings]
    // Repeated keys are reported by the reader below, which knows their path.
    .filter((fault) => fault.code !== 'DUPLICATE_KEY')
    .map((fault) => ({ where: whereOf(fault.pos[0]), path: [], message: yamlMessage(fault.code, fault.message) }));
  if (faults.length > 0) return { value: undefined, problems: faults };

  const reader = new YamlReader(yaml, document, { whereOf, env, positions });
  return { value: reader.read(document.contents, []), problems: reader.problems };
}

interface Surroundings {
  readonly whereOf: (offset: number) => Where;
  readonly env: Environment;
  readonly positions: Positions;
}

class YamlReader {
  readonly problems: Problem[] = [];
  readonly #yaml: typeof Yaml;
  readonly #document: Document;
  readonly #whereOf: (offset: number) => Where;
  readonly #env: Environment;
  readonly #positions: Positions;
  #aliases = 0;

  constructor(yaml: typeof Yaml, document: Document, { whereOf, env, positions }: Surroundings) {
    this.#yaml = yaml;
    this.#document = document;
    this.#whereOf = whereOf;
    this.#env = env;
    this.#positions = positions;
  }

  /** `keyOffset`: where the key is written; a value that is left out stands where its key does. */
  read(node: unknown, path: KeyPath, keyOffset?: number): unknown {
    const offset = (node as Node | null)?.range?.[0] ?? keyOffset ?? 0;
    this.#positions.set(path, this.#whereOf(offset), this.#whereOf(keyOffset ?? offset));
    const { isAlias, isMap, isScalar, isSeq } = this.#yaml;
    if (isAlias(node)) return this.#readAlias(node, path, keyOffset);
    if (isMap(node)) return this.#readMapping(node.items, path);
    if (isSeq(node)) return node.items.map((item, index) => this.read(item, [...path, index]));
    if (isScalar(node)) return this.#readScalar(node, path);
    return null;
  }

  #readMapping(items: readonly { key: unknown; value: unknown }[], path: KeyPath): unknown {
    const entries: [string, unknown][] = [];
    const first = new Map<string, Where>();
    for (const { key, value } of items) {
      const offset = (key as Node | null)?.range?.[0] ?? 0;
      const where = this.#whereOf(offset);
      // A key that YAML reads as a number or a truth value is taken as it is written: an unknown key like any other.
      const name = this.#yaml.isScalar(key) ? (typeof key.value === 'string' ? key.value : key.source) : undefined;
      if (name === undefined || name === '') {
        this.problems.push({ where, path, message: 'a key must be a word' });
        continue;
      }
      const earlier = first.get(name);
      if (earlier?.kind === 'file') {
        const message = `the key is given twice, first at line ${earlier.line}, column ${earlier.column}`;
        this.problems.push({ where, path: [...path, name], message });
        continue;
      }
      first.set(name, where);
      entries.push([name, this.read(value, [...path, name], offset)]);
    }
    // Not by assignment: a key spelled __proto__ has to arrive as an ordinary, unknown key.
    return Object.fromEntries(entries);
  }

  #readScalar(scalar: Scalar, path: KeyPath): unknown {
    if (typeof scalar.value !== 'string') return scalar.value;
    const { value, replaced, faults } = interpolate(scalar.value, this.#env);
    for (const message of faults) this.problems.push({ where: this.#positions.ofValue(path), path, message });
    if (replaced) this.#positions.setTemplate(path, scalar.value);
    return replaced && scalar.type === this.#yaml.Scalar.PLAIN ? plainValue(value) : value;
  }

  /** The keys inside stand where the anchor is; the value as a whole stands where the alias is. */
  #readAlias(alias: Alias, path: KeyPath, keyOffset: number | undefined): unknown {
    const where = this.#whereOf(alias.range?.[0] ?? 0);
    this.#aliases += 1;
    if (this.#aliases > maxAliases) {
      const message = 'too many aliases, or one that holds itself';
      if (this.#aliases === maxAliases + 1) this.problems.push({ where, path: [], message });
      return null;
    }
    const target = alias.resolve(this.#document);
    if (target === undefined) {
      this.problems.push({ where, path, message: `there is no anchor &${alias.source} before this alias` });
      return null;
    }
    const value = this.read(target, path);
    this.#positions.set(path, where, keyOffset === undefined ? where : this.#whereOf(keyOffset));
    return value;
  }
}

/** An unquoted `${PORT}` is read as YAML reads what it stands for: a number or a truth value; otherwise text. */
function plainValue(text: string): unknown {
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return Number(text);
  if (text === 'true' || text === 'false') return text === 'true';
  return text;
}

function yamlMessage(code: string, message: string): string {
  if (code === 'MULTIPLE_DOCS') return 'a config file holds one YAML document';
  return `not valid YAML: ${message.charAt(0).toLowerCase()}${message.slice(1)}`;
}
