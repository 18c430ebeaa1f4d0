/**
 * The fenced blocks of the documents. What a block is, its language tells; what else is to be known of it stands in an
 * HTML comment ahead of it, which readers do not see:
 *
 *     <!-- test: serves -->                     each line starts a process, which is ended once it serves
 *     <!-- test: file ledgergate.yaml -->       also the content of that file, for later commands of the document
 *     <!-- test: keys -->                       YAML that is a file of keys, not a config
 *     <!-- test: rules -->                      YAML that is a file of rules for Prometheus
 *     <!-- test: parses -->                     YAML of something else: only read
 *     <!-- test: answers purge -->              the body of a 200 of that operation of docs/openapi.yaml
 *     <!-- test: needs redis-cli -->            not run where that program is missing
 *     <!-- test: not run, because REASON -->    for illustration
 *
 * Several are separated by semicolons.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const repository = fileURLToPath(new URL('../../', import.meta.url));

export interface Snippet {
  /** Relative to the repository. */
  readonly document: string;
  /** Of the fence, from 1. */
  readonly line: number;
  /** Empty where the fence has none. */
  readonly language: string;
  readonly text: string;
  /** By their first word. */
  readonly directives: ReadonlyMap<string, string>;
}

/** Every document whose snippets and links count. */
export function documents(): readonly string[] {
  const own = ['README.md', 'CONTRIBUTING.md', 'SECURITY.md'];
  const docs = readdirSync(`${repository}docs`).filter((name) => name.endsWith('.md'));
  const chart = ['helm/ledgergate/README.md', 'helm/ledgergate/CHANGELOG.md'];
  return [...own, ...docs.sort().map((name) => `docs/${name}`), ...chart].filter((file) =>
    existsSync(repository + file),
  );
}

/** Throws for a fence that has no end. */
export function snippetsOf(document: string): readonly Snippet[] {
  const lines = readFileSync(repository + document, 'utf8').split('\n');
  const snippets: Snippet[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const [fence, indent = '', marks = '', language = ''] =
      /^(\s*)(`{3,}|~{3,})\s*([\w-]*)/.exec(lines[at] ?? '') ?? [];
    if (fence === undefined) continue;
    const end = lines.findIndex((line, index) => index > at && line.trim() === marks);
    if (end === -1) throw new Error(`${document}:${at + 1}: the fence has no end`);
    const text = lines.slice(at + 1, end).map((line) => line.slice(indent.length));
    const directives = directivesOf(lines, at);
    snippets.push({ document, line: at + 1, language, text: `${text.join('\n')}\n`, directives });
    at = end;
  }
  return snippets;
}

/** Of the comment ahead of the fence, with empty lines between or without. */
function directivesOf(lines: readonly string[], at: number): ReadonlyMap<string, string> {
  let above = at - 1;
  while (above >= 0 && lines[above]?.trim() === '') above -= 1;
  const [, said = ''] = /^\s*<!-- test: (.*) -->\s*$/.exec(lines[above] ?? '') ?? [];
  const parts = said.split(';').map((part) => part.trim());
  return new Map(parts.flatMap((part) => (part === '' ? [] : [splitDirective(part)])));
}

function splitDirective(part: string): readonly [string, string] {
  const word = /^(?:not run, because|\S+)/.exec(part)?.[0] ?? part;
  return [word, part.slice(word.length).trim()];
}
