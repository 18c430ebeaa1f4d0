// The quick reader of keys files says what YAML says, or nothing.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { withKey, withoutKey, type NewKey } from '../../src/config/keys-edit.ts';
import { findPlainKeys } from '../../src/config/plain-keys.ts';
import { readYaml } from '../../src/config/yaml-source.ts';
import { fc } from '../support/fast-check.ts';

/** `undefined`: it is not YAML, or something is wrong with it. */
function yamlOf(text: string): unknown {
  const { value, problems } = readYaml(text, 'keys.yaml', {});
  return problems.length > 0 ? undefined : value;
}

const keyOf = (name: string): NewKey => ({
  name,
  tenant: 'acme',
  plan: 'paid',
  sha256: createHash('sha256').update(name).digest('hex'),
  operations: ['read', 'view'],
  origins: ['https://app.example', 'http://localhost:3000'],
  expires: '2027-01-01T00:00:00Z',
});

const documented = `# Keys
keys:
  - name: wallet-a # unique

    tenant: acme
    plan: paid
    sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    operations: [read, view] # of those of the plan
    origins: ["https://app.example"]
    expires: "2027-01-01T00:00:00Z"
# the next one
  - name: b
    plan: free
    sha256: cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34
`;

test('files as they are documented, and as the command line writes them, are of the usual form', () => {
  const made = ['a', 'b', 'c'].reduce((text, name) => withKey(text, keyOf(name)), '');
  const edited = withKey(withoutKey(made, 'b') ?? '', { name: 'd', plan: 'free', sha256: 'ab'.repeat(32) });
  const added = withKey(documented, keyOf('c'));
  for (const text of [documented, made, edited, added, documented.replace(/^ {2}/gm, '')]) {
    assert.ok(yamlOf(text) !== undefined);
    assert.deepEqual(findPlainKeys(text), yamlOf(text));
  }
});

test('a text that is changed anywhere is read as YAML reads it, or left to that', () => {
  const pieces = [
    ' ',
    '  ',
    '\n',
    '\n  ',
    '\n    ',
    '- ',
    ':',
    ': ',
    '#',
    ' #',
    '"',
    "'",
    '[',
    ']',
    ',',
    '{',
    '}',
    '\\',
  ];
  pieces.push('&a', '*a', '!!str ', '|', '>', '%', '${A}', '~', 'null', 'true', '0x1f', '1e5', '7', '.5', '---', '...');
  pieces.push('\t', '\r', '\u0085', '\u2028', '\ufeff', 'é', 'name: x', 'plan:', '<<: x', '? a', '__proto__: x');
  const made = withKey(withKey('', keyOf('a')), keyOf('b'));
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    drop: fc.nat(3),
    put: fc.oneof(fc.constantFrom(...pieces), fc.string({ maxLength: 3 })),
  });
  let plain = 0;
  fc.assert(
    fc.property(
      fc.constantFrom(documented, made),
      fc.array(change, { minLength: 1, maxLength: 3 }),
      (text, changes) => {
        const changed = changes.reduce((before, { at, drop, put }) => {
          const from = Math.floor(at * before.length);
          return before.slice(0, from) + put + before.slice(from + drop);
        }, text);
        const found = findPlainKeys(changed);
        if (found === undefined) return;
        plain += 1;
        assert.deepEqual(found, yamlOf(changed));
      },
    ),
    { numRuns: 3_000 },
  );
  assert.ok(plain > 100, `${plain} of the usual form`);
});
