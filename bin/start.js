/** From source where the sources are, because that is what a developer has just edited; otherwise the built package. */
import { existsSync } from 'node:fs';

const source = new URL('../src/main.ts', import.meta.url);
const built = new URL('../dist/main.js', import.meta.url);

await import(existsSync(source) ? source.href : built.href);
