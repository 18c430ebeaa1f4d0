/**
 * Reporter of `npm test`: a count and a time while tests run, each failure at once by its title, and at the end the
 * failures whole, ahead of the closing lines of Node's own reporter, which CI reads.
 */
import { relative } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { spec, type TestEvent } from 'node:test/reporters';

/** Ms between two counts: on a terminal each replaces the one before. */
const everyMs = { terminal: 200, elsewhere: 10_000 };

/** Yields the text of the run. */
export default async function* report(source: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const isTerminal = process.stdout.isTTY;
  const pauseMs = isTerminal ? everyMs.terminal : everyMs.elsewhere;
  const startMs = performance.now();
  const failures: TestEvent[] = [];
  const closing: string[] = [];
  let [tests, failed, shownAtMs] = [0, 0, startMs];
  const line = (words: string): string => `${isTerminal ? '\r\u001b[K' : ''}${words}\n`;
  const count = (): string => {
    const seconds = Math.round((performance.now() - startMs) / 1_000);
    return `${tests} tests, ${failed} failed, ${seconds} s`;
  };
  for await (const event of source) {
    const { type, data } = event;
    if (type === 'test:stdout' || type === 'test:stderr') yield `${isTerminal ? '\r\u001b[K' : ''}${data.message}`;
    if (type === 'test:diagnostic' && data.nesting === 0 && data.file === undefined) closing.push(data.message);
    // An error outside of all tests: the file's failure has no text of its own.
    if (type === 'test:diagnostic' && data.file !== undefined && data.message.startsWith('Error: '))
      yield line(`${relative(process.cwd(), data.file)}: ${data.message}`);
    // Node's reporter asks for the start of what it reports.
    if (type === 'test:fail' && !isParent(data)) failures.push({ type: 'test:start', data }, event);
    // Other events come in the order of the files: one slow file would hold the count of all others.
    if (type === 'test:complete' && !isParent(data)) {
      tests += 1;
      const { name, file, line: at, details } = data;
      if (details.error !== undefined) {
        failed += 1;
        yield line(`✖ ${name}${file === undefined ? '' : ` (${relative(process.cwd(), file)}:${at ?? 1})`}`);
      }
    }
    if (performance.now() - shownAtMs < pauseMs) continue;
    shownAtMs = performance.now();
    yield isTerminal ? `\r\u001b[K${count()}` : line(count());
  }
  yield line(count());
  if (failures.length > 0) yield await wholeFailures(failures);
  yield closing.map((message) => `ℹ ${message}\n`).join('');
}

/** The end of the output of Node's own reporter. */
async function wholeFailures(failures: readonly TestEvent[]): Promise<string> {
  const whole = await text(Readable.from(failures).compose(new spec()));
  return whole.slice(Math.max(0, whole.indexOf('✖ failing tests:')));
}

interface Reported {
  readonly name: string;
  readonly file?: string | undefined;
  readonly details: { readonly type?: string | undefined; readonly error?: Error };
}

/** Whether it is a suite, or a file: both fail by their tests. */
function isParent({ name, file, details: { type, error } }: Reported): boolean {
  const { failureType } = (error ?? {}) as { readonly failureType?: unknown };
  return type === 'suite' || failureType === 'subtestsFailed' || (error === undefined && file?.endsWith(name) === true);
}
