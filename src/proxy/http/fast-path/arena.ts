/**
 * Room for answers until they are sent: those of one turn of the event loop lie behind one another. Small, because a
 * client that takes nothing keeps what its answer lies in.
 */
export const arenaBytes = 64 * 1024;
/** Bound of the free arenas that are kept. */
const mostSpare = 16;

/** One buffer that answers lie in until they are sent. */
export class Arena {
  readonly bytes = Buffer.allocUnsafeSlow(arenaBytes);
  /** Bytes in use, from the beginning. */
  used = 0;
  /** Answers that are still to be sent. */
  waiting = 0;
  /** The kernel has not taken some of it yet, which must stay as it is. */
  isLent = false;
}

/** The arenas of a process: one that answers are written to, and those in use or free. */
export class Arenas {
  #current = new Arena();
  readonly #spare: Arena[] = [];

  /** One with room for `size` bytes behind what is in use; at most 64 KiB. */
  withRoom(size: number): Arena {
    const current = this.#current;
    if (!current.isLent && current.used + size <= arenaBytes) return current;
    this.#current = this.#spare.pop() ?? new Arena();
    return this.#current;
  }

  /** Part of it is to be sent. */
  hold(arena: Arena): void {
    arena.waiting += 1;
  }

  /** Part of it was sent. `isTaken`: the kernel has all of that part. */
  release(arena: Arena, isTaken: boolean): void {
    arena.waiting -= 1;
    arena.isLent ||= !isTaken;
    if (arena.waiting > 0 || arena.isLent) return;
    arena.used = 0;
    if (arena !== this.#current && this.#spare.length < mostSpare) this.#spare.push(arena);
  }
}
