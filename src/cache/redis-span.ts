/** What a trace tells of a command of Redis: its name and its failure, and nothing of keys and values. */
import type { Span } from '../trace/span.ts';
import type { Outcome } from './redis-link.ts';

/** Runs a command as part of `span`, where there is one. */
export function tracedCommand<T>(
  span: Span | undefined,
  name: string,
  run: () => Promise<Outcome<T>>,
): Promise<Outcome<T>> {
  return span === undefined ? run() : traced(span, name, run);
}

async function traced<T>(span: Span, name: string, run: () => Promise<Outcome<T>>): Promise<Outcome<T>> {
  const attributes = { 'db.system.name': 'redis', 'db.operation.name': name };
  const command = span.begin(name, { kind: 'client', attributes });
  const outcome = await run();
  if ('failure' in outcome) command.fail(outcome.failure);
  command.end();
  return outcome;
}
