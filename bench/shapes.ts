/**
 * The shapes of requests that clients send, all of them answered from the cache: views by POST, GET and view mixed on
 * each connection, keys, TLS and HTTP/2, beside nginx that caches, checks and counts the same. No read may reach the node
 * meanwhile. `--against DIR` measures the package of another checkout beside this one, round by round; `--rate N` paces
 * the load at about N requests a second.
 */
import { startCheapNode } from './support/cheap-node.ts';
import { shapes as allShapes, type Shape } from './support/client-shapes.ts';
import { loadCpu, requireHits, runMeasuredContest, serverCpu, type Standing } from './support/contest.ts';
import { isAsked, optionsOf, type Flags, type Part } from './support/options.ts';
import { hasProgram, packages, requirePrograms, type ServerProcess } from './support/process-under-test.ts';
import { cpu, cpuBeside, howTaken, p50, p99, p99Beside, rate, standingsTable } from './support/report.ts';
import { fill, measureShape } from './support/shape-load.ts';
import { createCertificate, startShapeGateway, startShapeNginx, type ShapeSettings } from './support/shape-servers.ts';

const [own, other] = ['ledgergate', 'the other'];

async function start(settings: ShapeSettings, against: string | undefined): Promise<readonly ServerProcess[]> {
  const servers = [await startShapeNginx(settings), await startShapeGateway(own, settings)];
  if (against !== undefined) servers.push(await startShapeGateway(other, settings, against));
  return servers;
}

export const shapes: Part = {
  name: 'shapes',
  heading: 'Shapes of requests',
  async run(flags: Flags) {
    requirePrograms('nginx', 'openssl');
    const options = optionsOf(flags, { starts: 2 });
    const { against, rate: pace } = flags.mix;
    const hasHttp2 = hasProgram('h2load');
    const skipped = `HTTP/2 is left out: h2load is not installed (apt-get install ${packages.h2load}).`;
    if (!hasHttp2) process.stderr.write(`\n!!! ${skipped}\n\n`);
    const asked = allShapes.filter(({ title, isHttp2 }) => isAsked(flags, title) && (hasHttp2 || isHttp2 !== true));
    const node = await startCheapNode({ cpu: loadCpu });
    const [nodeUrl = ''] = node.urls;
    const certificate = createCertificate();
    const standings = new Map<Shape, readonly Standing[]>();
    for (const shape of asked) {
      // Each shape has processes of its own, because compiled code of one shape slows or speeds the next.
      const one = await runMeasuredContest({
        options,
        requests: [shape],
        start: () => start({ nodeUrl, cpu: serverCpu, certificate, shape }, against),
        prepare: (server) => fill(server, shape, certificate.ca),
        measure: (server, asked, load) => measureShape(server, asked, { ...load, rate: pace }),
        reads: () => node.reads(),
      });
      for (const [key, value] of one) standings.set(key, value);
    }
    node.server.stop();
    requireHits(standings);
    const columns = {
      'req/s': rate,
      'CPU µs/request': cpu,
      '× nginx': cpuBeside('nginx'),
      ...(against === undefined ? {} : { '× the other': cpuBeside(other) }),
      ...(pace === undefined ? {} : { 'p50 ms': p50 }),
      'p99 ms': p99,
      ...(pace === undefined ? {} : { "p99 to nginx's": p99Beside('nginx') }),
    };
    return `Requests as clients send them, all of them answered from the cache: the complete gateway (the built package, metrics, log level info) beside nginx \`proxy_cache\` that does the same work. nginx keeps POST by target and body, looks up keys in a map and counts their requests (\`limit_req\`), and encrypts by the same cipher. 2,000 different requests of 400 B (GET) and 12 B (view), drawn at random, so that kinds mix on each of ${options.connections} connections; HTTP/2 by h2load, 16 connections of 8 streams. One core each. ${howTaken(options)}. "× nginx" is nginx's processor time per request divided by the row's. No read reached the node while it was measured, which the run checks.${hasHttp2 ? '' : ` ${skipped}`}

${standingsTable(standings, columns)}`;
  },
};
