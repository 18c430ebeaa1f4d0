/**
 * Reads a keys file of the usual form: a list with one `name: value` a line, as `ledgergate keys create` writes it. A
 * YAML parser takes a tenth of a millisecond for each key, in which no request is answered; this takes a hundredth of that.
 */

type Value = string | readonly string[];
type Entry = Map<string, Value | string[]>;

/** What the YAML `text` says; `undefined` where that is not sure: whoever asks reads it as YAML then. */
export function findPlainKeys(text: string): { readonly keys: readonly object[] } | undefined {
  const [head, ...lines] = text
    .split('\n')
    .map(withoutComment)
    .filter((line) => line !== '');
  const indent = lines[0]?.indexOf('- ');
  if (!text.endsWith('\n') || head !== 'keys:' || indent === undefined || indent === -1) return undefined;
  const form = new RegExp(`^ {${indent}}(?:(- )|  )([a-z]+\\d*):(?: (.+))?$`);
  const ofList = new RegExp(`^ {${indent + 4}}- (.+)$`);
  const entries: Entry[] = [];
  let list: string[] | undefined;
  for (const line of lines) {
    const [, item] = (list && ofList.exec(line)) ?? [];
    const [, dash, name, value] = (item === undefined && form.exec(line)) || [];
    if (dash !== undefined) entries.push(new Map());
    const isTaken = item === undefined ? takeMember(name, value) : takeItem(item);
    if (!isTaken) return undefined;
  }
  // An empty list is nothing in YAML, which is not the same.
  const isWhole = entries.every((entry) => [...entry.values()].every((value) => value.length > 0));
  return isWhole ? { keys: entries.map((entry) => Object.fromEntries(entry)) } : undefined;

  function takeMember(name: string | undefined, value: string | undefined): boolean {
    const entry = entries.at(-1);
    if (name === undefined || entry === undefined || entry.has(name)) return false;
    list = value === undefined ? [] : undefined;
    const read = value === undefined ? list : findValue(value);
    if (read !== undefined) entry.set(name, read);
    return read !== undefined;
  }

  function takeItem(item: string): boolean {
    const read = findText(item);
    if (read === undefined || list === undefined) return false;
    list.push(read);
    return true;
  }
}

function withoutComment(line: string): string {
  const from = line.startsWith('#') ? 0 : line.indexOf(' #');
  if (from === -1) return line;
  // By hand: an expression that ends with the line tries again at each blank within it.
  let end = from;
  while (line.charAt(end - 1) === ' ') end -= 1;
  return line.slice(0, end);
}

function findValue(value: string): Value | undefined {
  if (!value.startsWith('[') || !value.endsWith(']')) return findText(value);
  const texts = value
    .slice(1, -1)
    .split(',')
    .map((text) => findText(text.trim()));
  return texts.every((text) => text !== undefined) ? texts : undefined;
}

/** Quoted, or a text that is nothing else in YAML: no number, no truth value, nothing with variables in it. */
function findText(value: string): string | undefined {
  const [, quoted, bare] = /^(?:"([^"\\$,[\]]+)"|([\dA-Za-z](?:[\w.:/-]*[\w/-])?))$/.exec(value) ?? [];
  if (bare === undefined) return quoted;
  return /^(?:null|true|false)$/i.test(bare) || !Number.isNaN(Number(bare)) ? undefined : bare;
}
