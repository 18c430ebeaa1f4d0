/** Schema issues as config problems with place, key, expected and given value. */
import { z } from 'zod';
import {
  findValue,
  isMapping,
  type KeyPath,
  Positions,
  ConfigError,
  isSamePlace,
  type Problem,
  type Where,
} from './source/problem.ts';
import { findNearMiss, nearMissHint } from '../ledger/index.ts';
import { readYaml, type YamlSource } from './source/yaml-source.ts';

interface ExplainContext {
  /** The checked value: the file, overridden by flags and variables. */
  readonly root: unknown;
  readonly positions: Positions;
  /** Problems reported before; issues in the same place are left out. */
  readonly known: readonly Problem[];
  readonly jsonSchema: unknown;
  /** Messages quote no value: any may be a misplaced secret. */
  readonly isSecret: boolean;
}

/**
 * The value of another YAML file by its schema, absent when that refuses it, and all problems, which quote no value.
 * Throws ConfigError when the text is not YAML. `furtherOf`: finds further problems of `root`, the text's value.
 */
export function explainFile<Schema extends z.ZodType>(
  schema: Schema,
  text: string,
  file: string,
  furtherOf: (root: unknown, whereIs: (path: KeyPath) => Where) => readonly Problem[],
) {
  const source = readYaml(text, file, { env: {} });
  if (source.value === undefined && source.problems.length > 0) throw new ConfigError(source.problems);
  const root = source.value ?? {};
  const further = furtherOf(root, (path) => source.positions.ofValue(path));
  return { root, ...explainRoot(schema, root, source, further, true) };
}

/** The value by its schema, absent when that refuses it, and all problems, without places; none quotes a value. */
export function explainValue<Schema extends z.ZodType>(schema: Schema, value: unknown) {
  return explainRoot(schema, value, { value, problems: [], positions: new Positions() }, [], true);
}

/**
 * The value of `root` by its schema, absent when that refuses it, and all problems: those of the text, of the schema, and
 * `further` ones. `root`: the text's value, overridden by flags and variables. `isSecret`: no problem quotes a value.
 */
export function explainRoot<Schema extends z.ZodType>(
  schema: Schema,
  root: unknown,
  { problems: known, positions }: YamlSource,
  further: readonly Problem[],
  isSecret = false,
): { readonly data: z.output<Schema> | undefined; readonly problems: readonly Problem[] } {
  const { data, error } = schema.safeParse(root);
  if (error === undefined) return { data, problems: [...known, ...further] };
  // Made once: a file of keys may have thousands of issues.
  const jsonSchema = z.toJSONSchema(schema, { io: 'input' });
  const explained = explainIssues(error.issues, { root, positions, known, jsonSchema, isSecret });
  return { data: undefined, problems: [...known, ...explained, ...further] };
}

/** One problem for each issue, unknown keys one by one; none for a required key that another problem proposes. */
function explainIssues(issues: readonly z.core.$ZodIssue[], context: ExplainContext): readonly Problem[] {
  const problems: Problem[] = [];
  const proposed = new Set<string>();
  const propose = (path: KeyPath, near: string | undefined): string => {
    if (near === undefined) return '';
    proposed.add(ConfigError.formatPath([...path.slice(0, -1), near]));
    return ` (did you mean "${near}"?)`;
  };
  for (const issue of issues) {
    const path = issue.path as KeyPath;
    if (context.known.some(({ where }) => isSamePlace(where, context.positions.ofValue(path)))) continue;
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const at = [...path, key];
        const message = `unknown key${propose(at, nearKey(at, context))}`;
        problems.push({ where: context.positions.ofKey(at), path: at, message });
      }
    } else if (issue.code === 'invalid_key') {
      const message = `${issue.issues[0]?.message ?? issue.message}, got ${JSON.stringify(path.at(-1))}`;
      problems.push({ where: context.positions.ofKey(path), path, message });
    } else {
      const message = wrongValue(issue, path, context) + propose(path, keyOfForm(path, context));
      problems.push({ where: context.positions.ofValue(path), path, message });
    }
  }
  return problems.filter(({ path, message }) => message !== missing || !proposed.has(ConfigError.formatPath(path)));
}

const missing = 'is required';

/** The value as `expected` quotes it: without contents of variables and without passwords. */
function quoteValue(value: unknown, path: KeyPath, positions: Positions, expected: string): string {
  const template = positions.findTemplate(path);
  if (template !== undefined) return JSON.stringify(template);
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a mapping';
  if (typeof value !== 'string') return String(value);
  if (!value.includes('://')) return JSON.stringify(value);
  return /\baddress\b/.test(expected) ? 'another address' : 'an address';
}

function wrongValue(issue: z.core.$ZodIssue, path: KeyPath, context: ExplainContext): string {
  const value = findValue(context.root, path);
  if (value === undefined) return missing;
  if (value === null) return 'is empty: give it a value or leave the key out';
  const expected =
    issue.code === 'invalid_value'
      ? `expected ${alternatives(issue.values.map((word) => JSON.stringify(word)))}`
      : issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')
        ? `expected ${issue.expected === 'object' ? aMapping(path, context) : issue.expected}`
        : issue.message;
  if (!expected.startsWith('expected')) return expected;
  // A hint names a word of the schema, which is no secret.
  const hint = typeof value === 'string' ? nearMissHint(value, wordsOf(schemaAt(context, path))) : '';
  if (context.isSecret) return expected + hint;
  return `${expected}, got ${quoteValue(value, path, context.positions, expected)}${hint}`;
}

function alternatives(words: readonly string[]): string {
  return words.join(', ').replace(/, ([^,]*)$/, ' or $1');
}

/** The required keys, or else the first ones, since a message is one line. */
function aMapping(path: KeyPath, context: ExplainContext): string {
  const schema = schemaAt(context, path);
  const required = findValue(schema, ['required']);
  const known = Object.keys(propertiesOf(schema));
  const keys = Array.isArray(required) ? required : known.length > 4 ? [...known.slice(0, 3), '...'] : known;
  return `a mapping of keys${keys.length === 0 ? '' : ` (${keys.join(', ')})`}`;
}

/** The key that an unknown one means: a near one of its section, or one of its name elsewhere. */
function nearKey(path: KeyPath, context: ExplainContext): string | undefined {
  const word = String(path.at(-1));
  const parent = schemaAt(context, path.slice(0, -1));
  return findNearMiss(word, Object.keys(propertiesOf(parent))) ?? findElsewhere(context.jsonSchema, word, []);
}

/** The near key beside `path` that takes a value of this form: `upstreams` for a list at `upstream`. */
function keyOfForm(path: KeyPath, context: ExplainContext): string | undefined {
  const value = findValue(context.root, path);
  const word = path.at(-1);
  if (typeof value !== 'object' || value === null || typeof word !== 'string') return undefined;
  const siblings = Object.entries(propertiesOf(schemaAt(context, path.slice(0, -1)))).filter(([key, schema]) => {
    if (key === word) return false;
    if (Array.isArray(value)) return findValue(schema, ['type']) === 'array';
    return Object.keys(value).some((part) => Object.hasOwn(propertiesOf(schema), part));
  });
  return findNearMiss(
    word,
    siblings.map(([key]) => key),
  );
}

/** The path of a key with the same name in another section, such as `upstream.timeout`. */
function findElsewhere(schema: unknown, word: string, path: KeyPath): string | undefined {
  for (const [key, child] of childrenOf(schema)) {
    if (key === word && path.length > 0) return ConfigError.formatPath([...path, key]);
    const found = findElsewhere(child, word, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The JSON Schema of the value at `path`, which the parts of a path lead to. */
function schemaAt({ jsonSchema }: ExplainContext, path: KeyPath): unknown {
  let at = jsonSchema;
  for (const part of path) {
    const children = childrenOf(at);
    at = (children.find(([key]) => key === part) ?? children.find(([key]) => key === 0 || key === anyName))?.[1];
  }
  return at;
}

/** Stands for the names in a mapping that takes any. */
const anyName = 'NAME';

/** The schemas directly below: of keys, of the items of a list as 0, of names that operators choose as `anyName`. */
function childrenOf(schema: unknown): readonly (readonly [key: string | number, schema: unknown])[] {
  const [items, named] = [findValue(schema, ['items']), findValue(schema, ['additionalProperties'])];
  return [
    ...Object.entries(propertiesOf(schema)),
    ...(isMapping(items) ? [[0, items] as const] : []),
    ...(isMapping(named) ? [[anyName, named] as const] : []),
  ];
}

/** Keys of a mapping, those of all its alternatives together. */
function propertiesOf(schema: unknown): Record<string, unknown> {
  return Object.assign({}, ...formsOf(schema).map((form) => findValue(form, ['properties']))) as Record<
    string,
    unknown
  >;
}

function wordsOf(schema: unknown): readonly string[] {
  const words = formsOf(schema).flatMap((form) => findValue(form, ['enum']) ?? findValue(form, ['const']) ?? []);
  return words.filter((word) => typeof word === 'string');
}

function formsOf(schema: unknown): readonly unknown[] {
  const forms = findValue(schema, ['anyOf']);
  return Array.isArray(forms) ? forms : [schema];
}
