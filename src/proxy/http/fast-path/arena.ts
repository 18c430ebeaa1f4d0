/**
 * Bytes of an arena, which holds the answers of one turn of the event loop. Small, because a client that reads nothing
 * keeps the whole arena of its answer.
 */
export const arenaBytes = 64 * 1024;
/** Bound of the free arenas. */
const mostSpare = 16;

/** Buffer that holds answers until the kernel accepts them. */
export class Arena {
  readonly bytes = Buffer.allocUnsafeSlow(arenaBytes);
  /** Bytes in use, from offset 0. */
  used = 0;
  /** Unsent answers in it. */
  waiting = 0;
  /** The kernel has not accepted some of its bytes, which must not change. */
  isLent = false;
}

/** Arenas of a process: the current one, those in use, and free ones. */
export class Arenas {
  #current = new Arena();
  readonly #spare: Arena[] = [];

  /** An arena with `size` free bytes (at most 64 KiB) behind those in use. */
  withRoom(size: number): Arena {
    const current = this.#current;
    if (!current.isLent && current.used + size <= arenaBytes) return current;
    this.#current = this.#spare.pop() ?? new Arena();
    return this.#current;
  }

  /** Counts an unsent answer in `arena`. */
  hold(arena: Arena): void {
    arena.waiting += 1;
  }

  /** Uncounts a sent answer. `isTaken`: the kernel accepted all of its bytes. */
  release(arena: Arena, isTaken: boolean): void {
    arena.waiting -= 1;
    arena.isLent ||= !isTaken;
    if (arena.waiting > 0 || arena.isLent) return;
    arena.used = 0;
    if (arena !== this.#current && this.#spare.length < mostSpare) this.#spare.push(arena);
  }
}
