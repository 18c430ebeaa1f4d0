/**
 * The source text of the member `name` of a JSON object, spaces and all; `undefined` if there is none. The text must
 * have been checked to be a JSON object without double keys.
 */
export function memberSource(text: string, name: string): string | undefined {
  let at = text.indexOf('{') + 1;
  while (at > 0 && at < text.length) {
    const key = endOfValue(text, at, ':');
    const value = endOfValue(text, key + 1, ',');
    if (text.slice(at, key).trim() === JSON.stringify(name)) return text.slice(key + 1, value).trim();
    at = value + 1;
  }
  return undefined;
}

/** End of the value that starts at `from`: at `separator`, or at the bracket that closes what it stands in. */
function endOfValue(text: string, from: number, separator: string): number {
  let depth = 0;
  let at = from;
  for (; at < text.length; at += 1) {
    const letter = text.charAt(at);
    if (letter === '"') at = endOfString(text, at);
    else if (letter === '[' || letter === '{') depth += 1;
    else if (depth === 0 && (letter === separator || letter === '}' || letter === ']')) break;
    else if (letter === ']' || letter === '}') depth -= 1;
  }
  return at;
}

/** The closing quotation mark. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  while (at < text.length && text.charAt(at) !== '"') at += text.charAt(at) === '\\' ? 2 : 1;
  return at;
}
