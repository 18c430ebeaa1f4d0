import assert from 'node:assert/strict';
import { test } from 'node:test';

test('the tests run on a Node that the gateway supports: 22.19 or newer', () => {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  assert.ok(major > 22 || (major === 22 && minor >= 19), `Node ${process.versions.node}`);
});
