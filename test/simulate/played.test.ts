/** The simulation beside the real thing: one trace, played to both. `npm run simulate -- --check` does it at length. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkedTraces, differenceOf } from '../../simulate/check.ts';
import { playReal, playSimulated } from '../../simulate/played.ts';
import { noRedis } from '../support/redis-server.ts';

const seed = 7;

for (const trace of checkedTraces(seed, 300, true)) {
  const skip = trace.shape.redis === undefined ? false : noRedis;
  test(`simulated and played to real gateways, a trace comes to the same: ${trace.name}`, { skip }, async () => {
    const [simulated, real] = [playSimulated(trace, seed), await playReal(trace)];
    assert.equal(differenceOf(simulated, real), undefined, JSON.stringify({ simulated, real }));
    assert.ok(simulated.node > 0 && simulated.memory > 0);
    assert.equal(simulated.redis > 0, trace.shape.redis !== undefined);
  });
}
