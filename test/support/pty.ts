/** Commands on a terminal of their own, by `script` of util-linux. */
import { spawn, spawnSync } from 'node:child_process';
import type { TestContext } from 'node:test';

/** For the `skip` of a test: BSD has another `script`. */
export const noPty: string | false = String(spawnSync('script', ['--version']).stdout).includes('util-linux')
  ? false
  : 'script of util-linux is not installed';

/** Runs a line of shell on a new terminal, which closes after the test. */
export function onPty(t: TestContext, line: string, options: { readonly cwd: string }) {
  const env = { PATH: process.env['PATH'], HOME: process.env['HOME'], TERM: 'xterm', NO_COLOR: '1' };
  const child = spawn('script', ['--quiet', '--flush', '--command', `exec ${line}`, '/dev/null'], { ...options, env });
  t.after(() => child.kill('SIGKILL'));
  let text = '';
  const looks = new Set<() => void>();
  child.stdout.on('data', (chunk) => {
    text += String(chunk).replaceAll('\r', '');
    for (const look of looks) look();
  });
  return {
    /** Resolves with the first match of the output; rejects when the command ends without one. */
    output: (pattern: RegExp) =>
      new Promise<RegExpExecArray>((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(text);
          if (match !== null) resolve(match);
        };
        looks.add(look);
        look();
        child.once('close', () => reject(new Error(`ended without ${String(pattern)}:\n${text}`)));
      }),
    /** Everything on the screen so far. */
    text: () => text,
    /** As typed on the keyboard. */
    type: (keys: string) => void child.stdin.write(keys),
    /** Closes the terminal, as its window does. */
    close: () => void child.kill('SIGKILL'),
  };
}
