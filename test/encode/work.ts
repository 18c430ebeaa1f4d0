/** Measures the encoder on ABIs that are made to keep it busy: its steps, its time, and its bytes where there are any. */
import { compileModule } from '../../src/encode/abi.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import { type EncodeOutcome, Steps } from '../../src/encode/outcome.ts';
import { cpuMs } from '../support/cpu-time.ts';
import { generateWork, type WorkCase } from './generate-abi.ts';
import { referenceHex } from './reference.ts';

export interface Most {
  readonly seed: number;
  readonly steps: number;
  readonly ms: number;
}

export interface WorkResult {
  readonly cases: number;
  /** Encoded, and byte-equal to the reference. */
  readonly equal: number;
  /** Left to nodes because of their steps. */
  readonly bounded: number;
  /** Left to nodes or refused for another reason, or too large for the reference. */
  readonly other: number;
  readonly mostSteps: Most;
  readonly longest: Most;
  /** Numbers of the cases that went wrong; `generateWork` makes each again. */
  readonly failures: readonly {
    readonly seed: number;
    readonly outcome: EncodeOutcome;
    readonly expected: string | undefined;
  }[];
}

const none: Most = { seed: 0, steps: 0, ms: 0 };

/** Runs the cases `seed` to `seed + cases - 1`. Time is what the thread computes, garbage collection and compilation included. */
export async function measureWork({
  seed,
  cases,
}: {
  readonly seed: number;
  readonly cases: number;
}): Promise<WorkResult> {
  const failures: { seed: number; outcome: EncodeOutcome; expected: string | undefined }[] = [];
  let [mostSteps, longest, equal, bounded, other] = [none, none, 0, 0, 0];
  for (let at = seed; at < seed + cases; at += 1) {
    const made = generateWork(at);
    const { outcome, steps, ms } = await encodeWork(made);
    const expected = made.call === undefined ? undefined : expectedOf(made.call);
    if (outcome.kind === 'encoded' && outcome.hex === expected) equal += 1;
    else if (outcome.kind === 'forward' && outcome.reason === 'too many steps') bounded += 1;
    else if (isFault(outcome, expected)) failures.push({ seed: at, outcome, expected });
    else other += 1;
    if (steps > mostSteps.steps) mostSteps = { seed: at, steps, ms };
    if (ms > longest.ms) longest = { seed: at, steps, ms };
  }
  return { cases, equal, bounded, other, mostSteps, longest, failures };
}

/** Encodes one case. */
export async function encodeWork({ bodyText, modules }: WorkCase) {
  const steps = new Steps();
  const compiled = new Map([...modules].map(([key, body]) => [key, compileModule(body)]));
  const loadModule = (address: string, name: string) => Promise.resolve(compiled.get(`${address}::${name}`));
  const startedMs = cpuMs();
  const outcome = await encodeSubmission(bodyText, { chainId: 4, signingDomain: 'APTOS', loadModule, steps });
  return { outcome, steps: steps.taken, ms: cpuMs() - startedMs };
}

/** Other bytes, a refusal of what means something, or the encoder has stopped itself. */
function isFault(outcome: EncodeOutcome, expected: string | undefined): boolean {
  if (outcome.kind === 'forward') return outcome.reason === 'encoder fault';
  return expected !== undefined;
}

function expectedOf({ tags, arguments: values }: NonNullable<WorkCase['call']>): string {
  return referenceHex({
    sender: '1'.padStart(64, '0'),
    sequenceNumber: 0n,
    maxGasAmount: 1n,
    gasUnitPrice: 1n,
    expirationTimestampSecs: 1n,
    chainId: 4,
    nonce: undefined,
    secondarySigners: undefined,
    multisigAddress: undefined,
    call: {
      address: 'cafe'.padStart(64, '0'),
      module: 'm0',
      name: 'f',
      typeArguments: tags.map((kind) => ({ kind })),
      arguments: values,
    },
  });
}
