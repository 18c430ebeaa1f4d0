/** The closest of `known` to a mistyped word; `undefined` when none is close enough. */
export function findNearMiss(word: string, known: Iterable<string>): string | undefined {
  const plain = plainForm(word);
  let best: { readonly word: string; readonly distance: number } | undefined;
  for (const candidate of known) {
    const target = plainForm(candidate);
    const distance = editDistance(plain, target);
    // A third of wrong letters is a typo, more is another word: a wrong hint is worse than none.
    const tolerated = Math.max(1, Math.floor(Math.max(plain.length, target.length) / 3));
    if (distance <= tolerated && distance < target.length && (best === undefined || distance < best.distance)) {
      best = { word: candidate, distance };
    }
  }
  return best?.word;
}

/** ` (did you mean "tier"?)`, or an empty text: the end of a message. `prefix`: of the words, without which they are compared. */
export function nearMissHint(word: string, known: Iterable<string>, prefix = ''): string {
  const near = findNearMiss(word, known);
  return near === undefined ? '' : ` (did you mean "${prefix}${near}"?)`;
}

/** `probe_interval`, `probe-interval` and `probeInterval` are one word in three spellings. */
function plainForm(word: string): string {
  return word.toLowerCase().replaceAll(/[_-]/g, '');
}

/** Optimal string alignment distance: insertions, deletions, replacements and swaps of neighbours. */
function editDistance(left: string, right: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(at(last, column) + 1, at(current, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (swapped) cost = Math.min(cost, at(beforeLast, column - 2) + 1);
      current.push(cost);
    }
    beforeLast = last;
    last = current;
  }
  return at(last, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
