// Every 503 and 429 that the gateway writes itself is a row of docs/errors.md, and every row is one of them.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repository } from './snippets.ts';

/** The start of an error with one of the two statuses, up to its message. */
const openings =
  /(?:new GatewayError|super)\(\s*'(?:unavailable|rateLimited)',|new AdminFault\(\s*503,|\bstatus: (?:503|429), body:/g;

/** Files with errors whose fault is computed; none of the faults is a 503 or 429. */
const computed = ['proxy/http/server/connection-state.ts', 'proxy/routes/encoder.ts', 'proxy/routes/router.ts'];

interface Piece {
  /** A pattern of the text: a template matches with any values. */
  readonly pattern: string;
  readonly end: number;
}

/** The text literal that begins at `start` of `source`; templates nest. */
function literalAt(source: string, start: number): Piece {
  const quote = source[start];
  let pattern = '';
  let at = start + 1;
  while (source[at] !== quote) {
    if (at >= source.length) throw new Error('the literal has no end');
    if (quote === '`' && source.startsWith('${', at)) {
      pattern += '.+';
      at = endOfBrackets(source, at + 1);
    } else {
      if (source[at] === '\\') at += 1;
      pattern += source[at]?.replace(/[^\w ]/, '\\$&') ?? '';
      at += 1;
    }
  }
  return { pattern, end: at + 1 };
}

/** Behind the bracket that closes the one at `start`; `found` gets the literals between. */
function endOfBrackets(source: string, start: number, found: string[] = []): number {
  let depth = 0;
  for (let at = start; at < source.length;) {
    const character = source[at] ?? '';
    if (character === "'" || character === '`') {
      const { pattern, end } = literalAt(source, at);
      found.push(pattern);
      at = end;
      continue;
    }
    if ('([{'.includes(character)) depth += 1;
    if (')]}'.includes(character)) depth -= 1;
    at += 1;
    if (depth === 0) return at;
  }
  throw new Error('a bracket is not closed');
}

/**
 * Patterns of the messages in `source`. One that is no literal is in the statement that names it, in a table of the file, or
 * in a function of the file, which returns it.
 */
function messagesIn(source: string): readonly string[] {
  return [...source.matchAll(openings)].flatMap((opening) => {
    const text = opening[0];
    const bracket = text.endsWith('body:') ? source.indexOf('{', opening.index + text.length) : -1;
    const start = bracket === -1 ? source.indexOf('(', opening.index) : bracket;
    const found: string[] = [];
    const end = endOfBrackets(source, start, found);
    const isNamed = source.startsWith(' message,', opening.index + text.length);
    const from = isNamed ? source.lastIndexOf('message', opening.index) : opening.index + text.length;
    if (isNamed) endOfBrackets(`(${source.slice(from, source.indexOf(';\n', from))})`, 0, found);
    const origin = source.slice(from, end);
    const table = /(\w+)\[/.exec(origin)?.[1];
    const listed = source.indexOf(`\nconst ${table}:`);
    if (listed !== -1) endOfBrackets(source, source.indexOf('{\n', listed), found);
    const messages = found.filter((pattern) => pattern.includes(' '));
    if (messages.length > 0) return messages;
    const call = /(\w+)\(/.exec(origin)?.[1];
    const made = source.indexOf(`\nfunction ${call}(`);
    assert.ok(call !== undefined && made !== -1, `no message is found: ${source.slice(opening.index, end)}`);
    const body = source.slice(made, source.indexOf('\n}\n', made));
    return [...body.matchAll(/(?:return|message(?::| =)) (?=['`])/g)].map(
      ({ 0: word, index }) => literalAt(body, index + word.length).pattern,
    );
  });
}

const isOf = (pattern: string, text: string): boolean => new RegExp(`^${pattern}$`).test(text);

/** Reasons in log lines are no messages. */
function withoutReasons(source: string): string {
  return source.replaceAll(/\breason: '[^']*'/g, 'reason');
}

const sources = readdirSync(`${repository}src`, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => ({ name, source: withoutReasons(readFileSync(join(repository, 'src', name), 'utf8')) }));

test('every 503 and 429 of the gateway is in docs/errors.md with its cause and remedy, and no other is', () => {
  const page = readFileSync(`${repository}docs/errors.md`, 'utf8');
  const rows = [...page.matchAll(/^\| `([^`]+)`[^|]*\| ([^|]+) \| ([^|]+) \|$/gm)].map(([, message = '']) => message);
  const patterns = sources.flatMap(({ source }) => messagesIn(source));

  assert.ok(patterns.length > 20);
  assert.deepEqual(
    patterns.filter((pattern) => !rows.some((row) => isOf(pattern, row))),
    [],
    'messages without a row',
  );
  assert.deepEqual(
    rows.filter((row) => !patterns.some((pattern) => isOf(pattern, row))),
    [],
    'rows without a message',
  );
});

test('no other error of the sources can be a 503 or 429', () => {
  const others = sources.filter(({ source }) => /new GatewayError\(\s*\w/.test(source));

  assert.deepEqual(others.map(({ name }) => name).sort(), computed);
});
