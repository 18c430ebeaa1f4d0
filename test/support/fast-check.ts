/**
 * Properties that draw the same cases in every run, so that a change is judged by what it changed. LEDGERGATE_SEED draws
 * others.
 */
import * as fc from 'fast-check';

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env['LEDGERGATE_SEED'] ?? 1) });

export { fc };
