/** Every parser of bytes from outside, and what is true of it whatever comes. */
import type { FuzzTarget } from './target.ts';
import { askerTargets } from './askers.ts';
import { bodyTargets } from './bodies.ts';
import { headTargets } from './heads.ts';
import { neighbourTargets } from './neighbours.ts';
import { operatorTargets } from './operators.ts';
import { wordTargets } from './words.ts';

export const fuzzTargets: readonly FuzzTarget[] = [
  ...wordTargets,
  ...headTargets,
  ...askerTargets,
  ...bodyTargets,
  ...neighbourTargets,
  ...operatorTargets,
];
