/**
 * The deployments of docs/scaling.md, simulated by seeded traffic.
 *
 *     npm run simulate -- [--quick] [--seed N] [--write] [--check]
 *
 * `--quick`: a tenth of the requests. `--write`: the tables of bench/RESULTS.md are made anew. `--check`: a trace is
 * played to real gateways as well, and must give the same counts.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { capacityOf } from './capacity.ts';
import { sharesTable, tablesOf, withTables } from './report.ts';
import { simulate } from './run.ts';
import { shapes } from './shape.ts';
import { requestShapes } from './shapes.ts';
import { studies, studyTable } from './studies.ts';

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    check: { type: 'boolean', default: false },
    seed: { type: 'string', default: '1' },
  },
});

const page = new URL('../bench/RESULTS.md', import.meta.url);

if (values.check) {
  const { check } = await import('./check.ts');
  process.exitCode = (await check(Number(values.seed), (line) => console.log(line))) ? 0 : 1;
} else {
  const requests = values.quick ? 8_000 : 80_000;
  const outcomes = shapes.map((shape) => {
    const outcome = simulate(shape, { seed: Number(values.seed), requests });
    return { outcome, capacity: capacityOf(outcome) };
  });
  const seconds = values.quick ? 2 : 20;
  const tables = [...tablesOf(outcomes), ...studies.map((study) => studyTable(study, Number(values.seed), seconds))];
  const shares = sharesTable(requestShapes);
  if (values.write) {
    const text = withTables(readFileSync(page, 'utf8'), [shares], 'shares');
    writeFileSync(page, withTables(text, tables));
  } else console.log([shares, ...tables].join('\n\n'));
}
