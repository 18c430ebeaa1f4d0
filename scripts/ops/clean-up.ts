/** Ends what was started, last things first, whatever happens: at the end, at an error, at Ctrl-C. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import type { TestContext } from 'node:test';

type Step = () => unknown;

export class CleanUp {
  readonly #steps: Step[] = [];
  #running: Promise<void> | undefined;

  after(step: Step): void {
    this.#steps.push(step);
  }

  /** The servers that tests are made of (`test/support`) ask nothing of a test but `after`. */
  get asTest(): TestContext {
    return { after: (step: Step) => this.after(step) } as unknown as TestContext;
  }

  /** A folder that goes with the rest. */
  folder(): string {
    const folder = mkdtempSync(join(tmpdir(), 'ledgergate-ops-'));
    this.after(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
  }

  /** On signals as well; then the process ends with the usual code. */
  onSignals(): void {
    for (const [signal, number] of [
      ['SIGINT', 2],
      ['SIGTERM', 15],
      ['SIGHUP', 1],
    ] as const) {
      process.once(signal, () => void this.run().finally(() => process.exit(128 + number)));
    }
  }

  run(): Promise<void> {
    return (this.#running ??= this.#run());
  }

  async #run(): Promise<void> {
    for (let step = this.#steps.pop(); step !== undefined; step = this.#steps.pop()) {
      try {
        await step();
      } catch (error) {
        console.error('clean-up:', error);
      }
    }
  }
}
