/** Rights by function: the views that a plan admits. */
import { Address } from '../../ledger/index.ts';

/** Functions as `0x1::coin::balance`, `0x1::coin::*` or `0x1::*`, with any spelling of the address. */
interface FunctionLists {
  readonly allow?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
}

/** The lists of one plan. */
export class FunctionRights {
  /** Canonical, as all of the lists; `undefined`: every function. */
  readonly #allow: ReadonlySet<string> | undefined;
  readonly #deny: ReadonlySet<string>;

  /** The lists are valid: the config has checked them. */
  constructor({ allow, deny = [] }: FunctionLists) {
    this.#allow = allow && new Set(allow.map(canonical));
    this.#deny = new Set(deny.map(canonical));
  }

  /** The rights of lists; `undefined`: there is none, and every view is admitted. */
  static of(lists: FunctionLists | undefined): FunctionRights | undefined {
    return lists?.allow === undefined && lists?.deny === undefined ? undefined : new FunctionRights(lists);
  }

  /** `functionId`: canonical; `undefined`: it is not certain which function the view calls. */
  admits(functionId: string | undefined): boolean {
    if (functionId === undefined) return false;
    const address = `${functionId.slice(0, functionId.indexOf('::'))}::*`;
    const module = `${functionId.slice(0, functionId.lastIndexOf('::'))}::*`;
    const isIn = (list: ReadonlySet<string>): boolean => list.has(functionId) || list.has(module) || list.has(address);
    return !isIn(this.#deny) && (this.#allow === undefined || isIn(this.#allow));
  }
}

function canonical(text: string): string {
  const end = text.indexOf('::');
  return Address.ofDigits(text.slice('0x'.length, end)) + text.slice(end);
}
