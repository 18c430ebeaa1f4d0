/** The node of the benchmarks gives answers that the gateway accepts, of the sizes that the tables name. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readPath, startCheapNode } from '../../bench/support/cheap-node.ts';
import { testGateway } from '../support/gateway.ts';
import { withoutNginx } from '../support/nginx.ts';

const cpu = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0';

test('reads of the benchmarks are answered through a gateway', { skip: withoutNginx() }, async (t) => {
  const node = await startCheapNode({ cpu });
  t.after(() => node.server.stop());
  const [url = ''] = node.urls;
  const gateway = await testGateway(t, { full: [{ url }] });
  const bytesOf = async (path: string): Promise<readonly number[]> => {
    const { status, body } = await gateway.get(path.replace('/v1', '').replace('%A', `0x5a${'0'.repeat(62)}`));
    return [status, body.length];
  };

  assert.deepEqual(await bytesOf(readPath(400, '2400000000')), [200, 400]);
  assert.deepEqual(await bytesOf(readPath(4_000, '2400000000')), [200, 4_000]);
  assert.deepEqual(await bytesOf(readPath(60_000, '2400000000')), [200, 60_000]);
  const [status] = await bytesOf(readPath(400, '2400000000', '0x1::ab::Body400<0x1::ab::T,0x1::ab::TT>'));
  assert.equal(status, 200);
});
