/** 32 bits of a text, for tables in memory: fast, and no proof against texts that are chosen to collide. */

/** FNV-1a of `text` from `from` to `to`, signed. `start`: the hash of what comes ahead of it, or a seed. */
export function textHash(text: string, from = 0, to = text.length, start = 0x811c9dc5): number {
  let hash = start;
  for (let at = from; at < to; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash;
}
