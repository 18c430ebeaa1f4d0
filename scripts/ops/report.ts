/** The checks and their results, as a growing table. */

interface Check {
  readonly what: string;
  readonly isRight: boolean;
  readonly told: string;
}

export class Report {
  readonly #checks: Check[] = [];
  readonly #startMs = performance.now();

  get isRight(): boolean {
    return this.#checks.length > 0 && this.#checks.every(({ isRight }) => isRight);
  }

  say(text: string): void {
    console.log(`${this.#seconds()}  ${text}`);
  }

  add(what: string, isRight: boolean, told: string): void {
    this.#checks.push({ what, isRight, told });
    console.log(`${this.#seconds()}  ${isRight ? 'ok    ' : 'FAILED'}  ${what}: ${told}`);
  }

  print(): void {
    const width = Math.max(...this.#checks.map(({ what }) => what.length));
    console.log('');
    for (const { what, isRight, told } of this.#checks) {
      console.log(`${isRight ? 'ok    ' : 'FAILED'}  ${what.padEnd(width)}  ${told}`);
    }
    const wrong = this.#checks.filter(({ isRight }) => !isRight).length;
    const seconds = ((performance.now() - this.#startMs) / 1000).toFixed(0);
    console.log(`\n${this.#checks.length} checks in ${seconds} s, ${wrong === 0 ? 'all in order' : `${wrong} FAILED`}`);
  }

  #seconds(): string {
    return `${((performance.now() - this.#startMs) / 1000).toFixed(1).padStart(6)} s`;
  }
}
