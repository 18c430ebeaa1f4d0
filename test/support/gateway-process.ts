/** Gateways in processes of their own, as they run in front of a fleet: the real binary on a config file. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { start, type Outcome, type RunningProcess } from '../commands/command-line.ts';
import type { Environment } from '../../src/commands/command.ts';
import { freePort } from './free-port.ts';
import { configFile } from '../config/config-file.ts';
import type { NodeAddress } from './gateway.ts';
import { type Ending, putFile } from './temporary-folder.ts';

export interface GatewayProcessOptions {
  readonly full: readonly NodeAddress[];
  /** Further sections of the config file, as they are written there. */
  readonly config?: ConfigSections;
  /** Where the config file is, instead of a folder of its own; it need not be there yet. */
  readonly file?: string;
  /** Variables of its environment. */
  readonly env?: Environment;
}

export type ConfigSections = Readonly<Record<string, unknown>>;

export interface GatewayProcess {
  /** Stays the same over restarts. */
  readonly url: string;
  /** Another one after each restart. */
  readonly operationsUrl: string;
  /** Of the process that runs now, or ran last. */
  readonly pid: number;
  /** How the process that runs now ends, whoever ends it. */
  readonly ended: Promise<Outcome>;
  /** Its config file. */
  readonly file: string;
  /** Puts another file in the place of its config file, made of other sections. */
  reconfigure(config: ConfigSections): void;
  /** Makes it read its config file again. */
  hangUp(): void;
  /** What all its processes have printed to stderr so far. */
  err(): string;
  /** The processes of its workers that have their setup, where it has any. */
  workers(): readonly number[];
  /** Asks it to end, politely; resolves with the exit code. */
  stop(): Promise<number | null>;
  /** Its output. */
  line(pattern: RegExp): Promise<RegExpExecArray>;
  /** Kills the process without warning; resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it again on the port it had; resolves when it listens. */
  restart(): Promise<void>;
}

/** Starts `ledgergate serve` on free ports; resolves when it listens. It is killed after the test. */
export async function gatewayProcess(t: Ending, options: GatewayProcessOptions): Promise<GatewayProcess> {
  const { full, config = {}, env = {} } = options;
  // JSON is YAML.
  const textOf = (sections: ConfigSections): string =>
    JSON.stringify({
      listen: { host: '127.0.0.1', port: 0 },
      operations: { host: '127.0.0.1', port: 0 },
      upstreams: full.map(({ url, maxRequestsPerSecond }, index) => {
        return { name: `full-${index}`, url, maxRequestsPerSecond };
      }),
      log: { level: 'error' },
      ...sections,
    });
  const file = options.file ?? configFile(t, '');
  if (options.file === undefined) writeFileSync(file, textOf(config));
  const serve = (port: string): RunningProcess => start(t, ['serve', '--config', file, '--port', port], { env });
  const operationsLine = /^Operations: +(\S+) /;
  const clientsLine = /^Clients: +(\S+) /;
  // A port that stays free while the gateway is restarted: no outgoing connection of another test takes it.
  let running = serve(String(await freePort()));
  let before = '';
  const [, url = ''] = await running.line(clientsLine);
  let [, operationsUrl = ''] = await running.line(operationsLine);
  return {
    url,
    get operationsUrl() {
      return operationsUrl;
    },
    get pid() {
      return running.process.pid ?? 0;
    },
    get ended() {
      return running.ended;
    },
    file,
    reconfigure(sections) {
      putFile(file, textOf(sections));
    },
    hangUp: () => void running.process.kill('SIGHUP'),
    err: () => before + running.err(),
    workers: () => childrenOf(running.process.pid, 'ledgergate worker'),
    async stop() {
      running.process.kill('SIGTERM');
      return (await running.ended).code;
    },
    line: (pattern) => running.line(pattern),
    async kill() {
      running.process.kill('SIGKILL');
      await running.ended;
    },
    async restart() {
      before += running.err();
      running = serve(new URL(url).port);
      await running.line(clientsLine);
      [, operationsUrl = ''] = await running.line(operationsLine);
    },
  };
}

/** Those that call themselves so. Tests ask again and again: where the kernel lists them, no process is started. */
function childrenOf(pid: number | undefined, title: string): readonly number[] {
  if (!existsSync('/proc/thread-self/children')) {
    const { stdout } = spawnSync('pgrep', ['-P', String(pid), '-f', `^${title}`], { encoding: 'utf8' });
    return stdout.split('\n').filter(Boolean).map(Number);
  }
  const children = ofProcess(`${pid}/task/${pid}/children`).split(' ').filter(Boolean);
  return children.filter((child) => ofProcess(`${child}/cmdline`).startsWith(title)).map(Number);
}

/** Of a process that is gone meanwhile there is nothing. */
function ofProcess(name: string): string {
  try {
    return readFileSync(`/proc/${name}`, 'utf8');
  } catch {
    return '';
  }
}
