/** Texts for fuzzing: words that mean something to the parser, in any order, with anything between them. */
import { fc } from '../support/fast-check.ts';

/** Pieces of `words`, and of characters of any kind, put together; sometimes long. */
export function soup(...words: readonly string[]): fc.Arbitrary<string> {
  const word = fc.constantFrom(...words);
  const piece = fc.oneof(
    { arbitrary: word, weight: 8 },
    { arbitrary: fc.string({ unit: 'binary', maxLength: 4 }), weight: 1 },
    { arbitrary: fc.string({ maxLength: 4 }), weight: 1 },
    // Much of one word is where a parser that goes back shows it.
    {
      arbitrary: fc.tuple(word, fc.integer({ min: 2, max: 400 })).map(([text, times]) => text.repeat(times)),
      weight: 1,
    },
  );
  return fc.array(piece, { maxLength: 24 }).map((pieces) => pieces.join(''));
}

/** A text that is fine, with a few places changed. */
export function changed(text: fc.Arbitrary<string>, ...words: readonly string[]): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(),
    cut: fc.nat({ max: 6 }),
    put: fc.oneof(fc.constantFrom('', ...words), fc.string()),
  });
  return fc.tuple(text, fc.array(change, { maxLength: 3 })).map(([start, changes]) => {
    let result = start;
    for (const { at, cut, put } of changes) {
      const place = at % (result.length + 1);
      result = result.slice(0, place) + put + result.slice(place + cut);
    }
    return result;
  });
}
