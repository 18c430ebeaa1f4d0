/** Log lines as text, for people on a terminal. */
import { pino } from 'pino';

/** Writes a word of a level, such as WARN, in its colour. */
export type PaintLevel = (word: string, level: number) => string;

/** One line of pino's JSON as text: time of day, level, event, fields. Nodes choose texts: no control character stays. */
export function formatLogLine(line: string, paint: PaintLevel = (word) => word): string {
  const { level, time, msg, pid: _pid, hostname: _hostname, ...fields } = parseExactly(line);
  const word = (pino.levels.labels[Number(level)] ?? String(level)).toUpperCase();
  const parts = Object.entries(fields).map(([name, value]) => `${name}=${valueText(value)}`);
  const event = typeof msg === 'string' ? escape(msg) : '';
  return `${timeText(Number(time))} ${paint(word.padEnd(5), Number(level))} ${[event, ...parts].join('  ')}\n`;
}

interface SourceContext {
  readonly source?: string;
}

/** Versions above 2^53 stay exact, as their source text. */
function parseExactly(line: string): Record<string, unknown> {
  return JSON.parse(line, keepExact) as Record<string, unknown>;
}

function keepExact(_key: string, value: unknown, context?: SourceContext): unknown {
  return typeof value === 'number' && !Number.isSafeInteger(value) ? (context?.source ?? value) : value;
}

/** Local time of day, to the millisecond. */
function timeText(ms: number): string {
  const at = new Date(ms);
  return `${at.toTimeString().slice(0, 8)}.${String(at.getMilliseconds()).padStart(3, '0')}`;
}

function valueText(value: unknown): string {
  if (typeof value === 'string' && /^[^\s"=]+$/.test(value)) return escape(value);
  return escape(JSON.stringify(value));
}

/** Control and format characters as \u escapes: they could move the cursor or reorder a line. */
function escape(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (char) => {
    return [...Array(char.length).keys()]
      .map((index) => `\\u${char.charCodeAt(index).toString(16).padStart(4, '0')}`)
      .join('');
  });
}
