/**
 * Mutants that no test can kill, or that none should, with the reason: by file, and by mutated text and replacement as
 * `npm run mutate` prints them.
 */
const equal = 'the result is the same either way';

export const explained: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'src/access/limits/account.ts': {
    'extraCost > 0 => extraCost >= 0': 'nothing is added',
  },
  'src/access/limits/window.ts': {
    'this.#used <= 0 => this.#used < 0': equal,
    'part < this.#newest => part <= this.#newest': 'the result after the loop is that of its last part',
    'steps <= 0 => steps < 0': 'sums the same amounts anew',
    'this.#oldest < this.#newest => true': 'the loop ends at what is in use, which is not above the newest part',
    'this.#oldest < this.#newest => this.#oldest <= this.#newest': 'the loop ends at what is in use',
  },
  'src/cache/redis/history-terms.ts': {
    'one.id < other.id => one.id <= other.id': 'no two fields of a hash have one name',
    '\'\' => "Stryker was here!"': 'for types alone: a group of a match, or no match and no number',
    '[] => ["Stryker was here"]': 'no number either way',
    'version === undefined => false': 'undefined is at or below no version',
  },
  'src/cache/policy.ts': {
    'version !== undefined => true': 'for types alone: undefined is at or below no head',
  },
  'src/upstream/monotonic-floor.ts': {
    'this.#served !== undefined => true': 'for types alone: no version is at or below undefined',
    'other !== undefined => true': 'for types alone: undefined is above no version',
    'other > one => other >= one': equal,
  },
  'src/upstream/dispatch/classify.ts': {
    'answer.status < 300 => false': 'spares a success the look into its body; the default is final as well',
    'answer.status < 300 => answer.status <= 300': 'the default is final as well',
    '\'\' => "Stryker was here!"': equal,
    'answer.status > 500 => answer.status >= 500': '500 has a case of its own',
  },
};
