/**
 * Mutants that no test can kill, or that none should, with the reason: by file, and by mutated text and replacement as
 * `npm run mutate` prints them.
 */
const equal = 'the result is the same either way';

export const explained: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  'src/cache/policy.ts': {
    'version !== undefined => true': 'for types alone: undefined is at or below no head',
  },
  'src/upstream/verdict.ts': {
    'answer.status < 300 => false': 'spares a success the look into its body; the default is final as well',
    'answer.status < 300 => answer.status <= 300': 'the default is final as well',
    '\'\' => "Stryker was here!"': equal,
    'answer.status > 500 => answer.status >= 500': '500 has a case of its own',
  },
};
