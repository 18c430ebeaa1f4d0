/**
 * The bound on the work of one encoding. Type arguments that replace type parameters are shared, so that a few kilobytes
 * of ABI describe types of any size; neither the ABI's length nor a count of structs bounds what a walk of them takes.
 * Every walk of the encoder therefore takes a step for each token, node of a type, field and value that it visits.
 */
import { Handover } from './outcome.ts';

/** Takes some 10 ms at worst. A body of as many values as are read here takes less than half of them. */
export const maxSteps = 50_000;
/** Characters of the request's text that cost as much as one step. */
const charactersOfStep = 64;

/** Counter of one request's steps. */
export class Steps {
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** Throws `Handover` where the bound is passed. */
  take(): void {
    this.#add(1);
  }

  /** Steps for going over a text a few times, to be taken ahead of that. Throws `Handover` where the bound is passed. */
  takeText(text: string): void {
    this.#add(Math.ceil(text.length / charactersOfStep));
  }

  #add(count: number): void {
    if (this.#taken + count > maxSteps) throw new Handover('too many steps');
    this.#taken += count;
  }
}
