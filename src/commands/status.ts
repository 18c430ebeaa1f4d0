/** `status [URL]`: what the status page of a running gateway shows, in a terminal. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type StatusFacts, statusLines } from '../proxy/operations/index.ts';
import { type CommandCall, type ExitCode, RuntimeFailure, type Screen, type Terminal } from './command.ts';
import { fetchText, operationsUrl } from './operations-port.ts';

const everyMs = 1_000;
const timeoutMs = 3_000;
/** Wider than any line, for output without a width. */
const unbounded = 1_000;

/** 0: the status was printed, whatever it is; `health` is for scripts that need readiness. */
export async function status(call: CommandCall): Promise<ExitCode> {
  const url = await operationsUrl('status', '/status.json', call);
  const isJson = call.given.has('json') || call.given.get('format')?.values[0] === 'json';
  if (call.given.has('watch')) return watch(url, isJson, call.terminal);
  const facts = await fetchFacts(url);
  print(facts, isJson, call.terminal);
  return 0;
}

/**
 * Prints the status each second until a signal: in place on a screen, one after the other elsewhere. A gateway that stops
 * answering is reported and asked again. At the start it is an error at once, because the address may be wrong.
 */
async function watch(url: URL, isJson: boolean, terminal: Terminal): Promise<ExitCode> {
  const stop = terminal.stopSignal();
  const first = await fetchFacts(url);
  const screen = isJson ? undefined : terminal.screen;
  // The alternate screen, without a cursor: its end restores the former screen.
  screen?.write('\u001b[?1049h\u001b[?25l');
  try {
    for (let facts: StatusFacts | string = first; ; facts = await fetchFacts(url).catch(messageOf)) {
      if (screen !== undefined) draw(facts, screen);
      else if (typeof facts === 'string') terminal.error(facts);
      else print(facts, isJson, terminal);
      if (stop.aborted) return 0;
      await sleep(everyMs, undefined, { signal: stop }).catch(() => undefined);
      if (stop.aborted) return 0;
    }
  } finally {
    screen?.write('\u001b[?25h\u001b[?1049l');
  }
}

function print(facts: StatusFacts, isJson: boolean, terminal: Terminal): void {
  if (isJson) terminal.out(JSON.stringify(facts));
  else {
    const { columns = unbounded, hasColours = false } = terminal.screen ?? {};
    for (const line of statusLines(facts, { columns, hasColours, events: 20 })) terminal.out(line);
  }
}

/** Overwrites line by line, so that nothing flickers. A text is the reason why there are no facts. */
function draw(facts: StatusFacts | string, screen: Screen): void {
  const { columns, rows, hasColours } = screen;
  if (typeof facts === 'string') {
    // The last status stays on the screen, below.
    screen.write(`\u001b[H\u001b[7m${facts.slice(0, columns)}\u001b[0m\u001b[K`);
    return;
  }
  const lines = statusLines(facts, { columns, hasColours, events: rows }).slice(0, rows);
  screen.write(`\u001b[H${lines.map((line) => `${line}\u001b[K`).join('\r\n')}\u001b[J`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Throws RuntimeFailure when there is no answer, or one that is not of a gateway. */
async function fetchFacts(url: URL): Promise<StatusFacts> {
  const text = await fetchText(url, timeoutMs);
  const facts = parseFacts(text);
  if (facts === undefined) throw new RuntimeFailure(`${url.href} is not the status of a gateway`);
  return facts;
}

function parseFacts(text: string): StatusFacts | undefined {
  try {
    const facts = JSON.parse(text) as StatusFacts | null;
    return facts?.name === 'ledgergate' && Array.isArray(facts.nodes) ? facts : undefined;
  } catch {
    return undefined;
  }
}
