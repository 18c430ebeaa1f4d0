/** `check FILE`: is the config sound, and are the upstreams what it says they are? */
import { ConfigError, type Problem } from '../config/problem.ts';
import type { Call, ExitCode } from './command.ts';
import { formatReport, jsonReport } from './check-report.ts';
import { type GivenConfig, givenFile, loadGivenConfig } from './given-config.ts';
import { inspectFleet, type Inspection } from './inspect-fleet.ts';
import { probe } from './probe.ts';

/** 0 only when all is fine; 2: the config is wrong; 1: an upstream is. */
export async function check(call: Call): Promise<ExitCode> {
  const { loaded, problems } = tryLoad(call);
  const isOffline = call.given.has('offline');
  const inspection = loaded === undefined || isOffline ? undefined : await inspect(loaded);
  const findings = inspection?.findings.map((finding): Problem => ({
    ...finding,
    where: loaded?.whereIs(finding.path) ?? { kind: 'nowhere' },
  }));
  const report = {
    file: loaded?.file ?? givenFile('check', call),
    problems: [...problems, ...(findings ?? [])],
    warnings: loaded?.warnings ?? [],
    upstreams: inspection?.upstreams,
  };
  call.terminal.out(call.given.get('format')?.values[0] === 'json' ? jsonReport(report) : formatReport(report));
  if (problems.length > 0) return 2;
  return report.problems.length > 0 ? 1 : 0;
}

function tryLoad(call: Call): { readonly loaded?: GivenConfig; readonly problems: readonly Problem[] } {
  try {
    return { loaded: loadGivenConfig('check', call), problems: [] };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: error.problems };
    throw error;
  }
}

async function inspect({ config, shown }: GivenConfig): Promise<Inspection> {
  const { dialect, upstream } = config;
  const probed = await Promise.all(
    config.upstreams.map(async ({ name, tier, url }, index) => ({
      name,
      tier,
      url: shown.upstreams[index]?.url ?? '',
      outcome: await probe(url, { dialect, timeoutMs: upstream.timeoutMs }),
    })),
  );
  return inspectFleet(probed, dialect);
}
