/** Command lines run in this process with a made-up terminal, or in a process of their own. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Environment } from '../../src/commands/command.ts';
import { runCommand } from '../../src/commands/run-command.ts';
import type { Ending } from '../support/temporary-folder.ts';

export interface Outcome {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Output and exit code of a command line, run in this process. */
export async function call(args: readonly string[], env: Environment = {}): Promise<Outcome> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCommand(args, {
    env,
    out: (line) => out.push(line),
    error: (line) => err.push(line),
    stopSignal: () => AbortSignal.abort(),
    onHangUp: () => undefined,
  });
  return { code, out: out.join('\n'), err: err.join('\n') };
}

export const binary = fileURLToPath(new URL('../../bin/ledgergate.js', import.meta.url));

export interface RunningProcess {
  readonly process: ChildProcess;
  /** The first line that `pattern` matches, from either stream; rejects when the process ends without one. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
  /** Its stderr so far. */
  err(): string;
  /** Resolves when the process has ended. */
  readonly ended: Promise<Outcome>;
}

/** Starts the real binary; it is killed after the test, whatever happened. */
export function start(t: Ending, args: readonly string[], options: StartOptions = {}): RunningProcess {
  const { env = {}, node = process.execPath, script = binary } = options;
  const child = spawn(node, [script, ...args], { env: { ...ownEnvironment(script), ...env } });
  t.after(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const text = { out: '', err: '' };
  const waiting = new Set<() => void>();
  for (const [stream, key] of [
    [child.stdout, 'out'],
    [child.stderr, 'err'],
  ] as const) {
    createInterface({ input: stream }).on('line', (line) => {
      lines.push(line);
      text[key] += `${line}\n`;
      for (const look of waiting) look();
    });
  }
  const ended = once(child, 'close').then(([code]): Outcome => ({ code: code as number | null, ...text }));
  const line = (pattern: RegExp): Promise<RegExpExecArray> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const match = lines.map((candidate) => pattern.exec(candidate)).find((found) => found !== null);
        if (match !== undefined) resolve(match);
      };
      waiting.add(look);
      look();
      void ended.then(({ out, err }) => reject(new Error(`ended without ${String(pattern)}:\n${out}${err}`)));
    });
  return { process: child, line, err: () => text.err, ended };
}

const { PATH, NODE_COMPILE_CACHE: compiled } = process.env;

/**
 * The folder of what processes of the binary have compiled: half of what a start costs. Test files have another one,
 * because V8 refuses what was compiled under other flags (`bin/start.js`), and each would replace all that the other keeps.
 */
export const compiledOfBinary: Environment =
  compiled === undefined ? {} : { NODE_COMPILE_CACHE: join(compiled, 'of-binary') };

/**
 * Of ours it gets what finds programs and, for the sources of this checkout, what was compiled before. What was built
 * somewhere else runs without anything of ours.
 */
function ownEnvironment(script: string): Environment {
  return script === binary ? { PATH, ...compiledOfBinary } : { PATH };
}

export interface StartOptions {
  readonly env?: Environment;
  readonly node?: string;
  readonly script?: string;
}
