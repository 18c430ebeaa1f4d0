/** Schema issues as config problems with place, key, expected and given value. */
import { z } from 'zod';
import {
  findValue,
  formatPath,
  isMapping,
  type KeyPath,
  type Positions,
  ConfigError,
  isSamePlace,
  type Problem,
} from './source/problem.ts';
import { findNearMiss, nearMissHint } from './source/near-miss.ts';
import type { YamlSource } from './source/yaml-source.ts';

/** The checked value and its places. */
interface ExplainContext {
  /** The checked value: the file, overridden by flags and variables. */
  readonly root: unknown;
  readonly positions: Positions;
  /** Problems reported before; issues in the same place are left out. */
  readonly known: readonly Problem[];
  /** For near-miss hints. */
  readonly schema: z.ZodType;
  /** Messages quote no value: any may be a misplaced secret. */
  readonly isSecret?: boolean;
}

/**
 * The value of `root` by its schema. Throws ConfigError with all problems: those of the text, of the schema, and `further`
 * ones. `root`: the text's value, overridden by flags and variables.
 */
export function checkRoot<Schema extends z.ZodType>(
  schema: Schema,
  root: unknown,
  { problems: known, positions }: YamlSource,
  { further, isSecret = false }: { readonly further: readonly Problem[]; readonly isSecret?: boolean },
): z.output<Schema> {
  const checked = schema.safeParse(root);
  const issues = checked.error?.issues ?? [];
  const problems = [...known, ...explainIssues(issues, { root, positions, known, schema, isSecret }), ...further];
  if (!checked.success || problems.length > 0) throw new ConfigError(problems);
  return checked.data;
}

/** One problem for each issue, unknown keys one by one. */
function explainIssues(issues: readonly z.core.$ZodIssue[], context: ExplainContext): readonly Problem[] {
  const problems: Problem[] = [];
  for (const issue of issues) {
    const path = issue.path as KeyPath;
    if (context.known.some(({ where }) => isSamePlace(where, context.positions.ofValue(path)))) continue;
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) problems.push(unknownKey([...path, key], context));
    } else if (issue.code === 'invalid_key') {
      const message = `${issue.issues[0]?.message ?? issue.message}, got ${JSON.stringify(path.at(-1))}`;
      problems.push({ where: context.positions.ofKey(path), path, message });
    } else {
      problems.push({ where: context.positions.ofValue(path), path, message: wrongValue(issue, path, context) });
    }
  }
  return problems;
}

/** The value as a message quotes it: without contents of variables and without passwords. */
function quoteValue(value: unknown, path: KeyPath, positions: Positions): string {
  const template = positions.findTemplate(path);
  if (template !== undefined) return JSON.stringify(template);
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object' && value !== null) return 'a mapping';
  if (typeof value !== 'string') return String(value);
  return value.includes('://') ? 'another address' : JSON.stringify(value);
}

function wrongValue(issue: z.core.$ZodIssue, path: KeyPath, context: ExplainContext): string {
  const value = findValue(context.root, path);
  if (value === undefined) return 'is required';
  if (value === null) return 'is empty: give it a value or leave the key out';
  const expected =
    issue.code === 'invalid_value'
      ? `expected ${alternatives(issue.values.map((word) => JSON.stringify(word)))}`
      : issue.code === 'invalid_type' && issue.message.startsWith('Invalid input')
        ? `expected ${issue.expected === 'object' ? 'a mapping of keys' : issue.expected}`
        : issue.message;
  if (!expected.startsWith('expected') || context.isSecret === true) return expected;
  const hint =
    issue.code === 'invalid_value' && typeof value === 'string' ? nearMissHint(value, issue.values.map(String)) : '';
  return `${expected}, got ${quoteValue(value, path, context.positions)}${hint}`;
}

function alternatives(words: readonly string[]): string {
  return words.join(', ').replace(/, ([^,]*)$/, ' or $1');
}

function unknownKey(path: KeyPath, context: ExplainContext): Problem {
  const word = String(path.at(-1));
  const schema = z.toJSONSchema(context.schema, { io: 'input' });
  const parent = schemaAt(schema, path.slice(0, -1));
  const near = findNearMiss(word, Object.keys(propertiesOf(parent))) ?? findElsewhere(schema, word, []);
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`;
  return { where: context.positions.ofKey(path), path, message: `unknown key${hint}` };
}

/** The path of a key with the same name in another section, such as `upstream.timeout`. */
function findElsewhere(schema: unknown, word: string, path: KeyPath): string | undefined {
  for (const [key, child] of Object.entries(propertiesOf(schema))) {
    if (key === word && path.length > 0) return formatPath([...path, key]);
    const found = findElsewhere(child, word, [...path, key]);
    if (found !== undefined) return found;
  }
  return undefined;
}

function schemaAt(schema: unknown, path: KeyPath): unknown {
  let at = schema;
  for (const part of path) at = typeof part === 'number' ? findValue(at, ['items']) : propertiesOf(at)[part];
  return at;
}

function propertiesOf(schema: unknown): Record<string, unknown> {
  const properties = findValue(schema, ['properties']);
  return isMapping(properties) ? properties : {};
}
