/** From source where the sources are, because that is what a developer has just edited; otherwise the built package. */
import { existsSync } from 'node:fs';
import { enableCompileCache } from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';

const source = new URL('../src/main.ts', import.meta.url);
const built = new URL('../dist/main.js', import.meta.url);
const isSource = existsSync(source);

// What Node compiled is kept for the next start, which saves a third of it. Beside the code and not in the folder for
// temporary files, where others could put something else in its place; where nothing can be written there, a start
// takes as long as ever. NODE_COMPILE_CACHE names another folder, NODE_DISABLE_COMPILE_CACHE=1 turns it off.
if (!isSource) enableCompileCache(fileURLToPath(new URL('../.compile-cache', import.meta.url)));

// V8 counts how many objects of a literal survive its collections of young objects. During the start, with a small young
// generation, most do; afterwards all that a request makes would go to the old generation for good, where only a full
// collection frees it, and it retains what it refers to (bench/RESULTS.md, Misses).
setFlagsFromString('--no-allocation-site-pretenuring');

await import(isSource ? source.href : built.href);
