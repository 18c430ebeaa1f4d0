import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FileTexts } from '../../src/metrics/index.ts';
import { dropUnused } from '../../src/workers/workers.ts';
import { testConfig } from '../support/gateway.ts';

test('files of the config in force are never dropped, of others those published last stay', () => {
  const listen = { tls: { cert: '/tls.crt', key: '/tls.key', ciphers: ['TLS_AES_128_GCM_SHA256'] } };
  const many = Array.from({ length: 1_500 }, (_, at) => ({
    url: `http://127.0.0.1:${at + 1}/v1`,
    tls: { ca: `/${at}` },
  }));
  const config = testConfig({ full: many, config: { listen } });
  const used = [config.listen.tls, ...config.upstreams.map(({ tls }) => tls)].map((tls) => JSON.stringify(tls));
  const others = Array.from({ length: 1_100 }, (_, at) => JSON.stringify({ ca: `/other/${at}` }));
  const keys = JSON.stringify({ keys: '/keys.yaml' });

  const files = new Map<string, FileTexts>([[keys, { keys: 'keys' }]]);
  for (const section of [...used, ...others]) files.set(section, { ca: 'pem' });

  dropUnused(files, config);

  assert.deepEqual([...files.keys()], [keys, ...used, ...others.slice(-1_000)]);
});
