/** The differential fuzz: src/encode against the reference, on made-up modules and requests. */
import { compileModule, type CompiledModule } from '../../src/encode/abi.ts';
import type { BcsWriter } from '../../src/encode/bcs.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import type { EncodeOutcome } from '../../src/encode/outcome.ts';
import { generateCase, type FuzzCase } from './generate.ts';
import { referenceHex } from './reference.ts';

export interface FuzzResult {
  readonly cases: number;
  /** Encoded, and byte-equal to the reference. */
  readonly equal: number;
  /** With an argument made wrong, and not encoded. */
  readonly refused: number;
  /** Numbers of the cases that went wrong; `generateCase` makes each again. */
  readonly failures: readonly { readonly seed: number; readonly outcome: EncodeOutcome; readonly expected: string }[];
}

/** Runs the cases `seed` to `seed + cases - 1` and stops after `maxFailures`. */
export async function runFuzz(options: {
  seed: number;
  cases: number;
  maxFailures?: number;
  writer?: BcsWriter;
}): Promise<FuzzResult> {
  const failures: { seed: number; outcome: EncodeOutcome; expected: string }[] = [];
  let [equal, refused, cases] = [0, 0, 0];
  for (; cases < options.cases && failures.length < (options.maxFailures ?? 10); cases += 1) {
    const seed = options.seed + cases;
    const generated = generateCase(seed);
    const outcome = await encodeCase(generated, options.writer);
    const expected = generated.isInvalid ? 'not encoded' : referenceHex(generated.transaction);
    if (generated.isInvalid && outcome.kind !== 'encoded') refused += 1;
    else if (outcome.kind === 'encoded' && outcome.hex === expected) equal += 1;
    else failures.push({ seed, outcome, expected });
  }
  return { cases, equal, refused, failures };
}

function encodeCase(generated: FuzzCase, writer: BcsWriter | undefined): Promise<EncodeOutcome> {
  return encodeSubmission(generated.bodyText, {
    chainId: generated.transaction.chainId,
    signingDomain: 'APTOS',
    loadModule: (address, name) => Promise.resolve(findModule(generated, address, name)),
    ...(writer === undefined ? {} : { writer }),
  });
}

function findModule(generated: FuzzCase, address: string, name: string): CompiledModule | undefined {
  const body = generated.modules.get(`${address.slice(2).padStart(64, '0')}::${name}`);
  return body === undefined ? undefined : compileModule(body);
}
