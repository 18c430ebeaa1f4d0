import { readFileSync } from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { chainIds, nearMissHint } from '../config/index.ts';
import {
  type CompiledModule,
  compileModule,
  encodeSubmission,
  explainSubmission,
  formatExplanation,
} from '../encode/index.ts';
import { findText } from '../ledger/index.ts';
import { type CommandCall, type ExitCode, RuntimeFailure, UsageError } from './command.ts';

/**
 * `encode --module-abi FILE < request.json`: the bytes to sign, with `--explain` taken apart. Works without any node:
 * a signer should not have to trust one to learn the meaning of the bytes.
 */
export async function encode({ given, terminal }: CommandCall): Promise<ExitCode> {
  const chainId = chainIdOf(given.get('chain-id')?.values[0]);
  const modules = readModules(given.get('module-abi')?.values ?? []);
  const context = {
    chainId,
    signingDomain: signingDomainOf(given.get('signing-domain')?.values[0]),
    loadModule: async (address: string, name: string) => Promise.resolve(requireModule(modules, address, name)),
  };
  const body = findText(await buffer(process.stdin));
  if (body === undefined) throw new RuntimeFailure('refused: the body is not UTF-8');
  const outcome = given.has('explain') ? await explainSubmission(body, context) : await encodeSubmission(body, context);
  switch (outcome.kind) {
    case 'forward':
      throw new RuntimeFailure(`not encoded here, a gateway would hand it to a node: ${outcome.reason}`);
    case 'refused':
      throw new RuntimeFailure(`refused: ${outcome.message}`);
    case 'encoded':
      terminal.out(outcome.hex);
      return 0;
    case 'explained':
      terminal.out(outcome.hex);
      terminal.out('');
      terminal.out(formatExplanation(outcome.parts));
      return 0;
  }
}

/** A module that was not given may exist on the ledger, so the error does not report it as missing there. */
function requireModule(modules: ReadonlyMap<string, CompiledModule>, address: string, name: string): CompiledModule {
  const module = modules.get(`${address}::${name}`);
  if (module !== undefined) return module;
  throw new RuntimeFailure(`not encoded: this needs the module ${address}::${name}, given by one more --module-abi`);
}

/** Module answers by `0x1::coin`. */
function readModules(files: readonly string[]): ReadonlyMap<string, CompiledModule> {
  if (files.length === 0)
    throw new UsageError('encode: --module-abi FILE is needed: the answer of GET .../module/NAME');
  return new Map(
    files.map((file) => {
      const module = compileModule(readText(file));
      if (module.abi === undefined) throw new UsageError(`encode: ${file} is no module answer with an ABI`);
      return [`${module.address}::${module.name}`, module];
    }),
  );
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`encode: cannot read ${file}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function signingDomainOf(value = 'APTOS'): string {
  if (!/^[A-Z][A-Z0-9_]{0,31}$/.test(value))
    throw new UsageError(`encode: --signing-domain is a word such as APTOS, got "${value}"`);
  return value;
}

/** The chain id is signed with the rest, so it is never guessed. */
function chainIdOf(value: string | undefined): number {
  if (value === 'mainnet' || value === 'testnet') return chainIds[value];
  const form = 'a number from 0 to 255, mainnet or testnet';
  if (value === undefined) throw new UsageError(`encode: --chain-id N is needed, ${form}: it is part of the bytes`);
  const chainId = /^\d{1,3}$/.test(value) ? Number(value) : 256;
  if (chainId > 255) {
    const hint = nearMissHint(value, Object.keys(chainIds));
    throw new UsageError(`encode: --chain-id: expected ${form}, got "${value}"${hint}`);
  }
  return chainId;
}
