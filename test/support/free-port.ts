import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that kernels give to outgoing connections (32768 and above), one of which could take the port before
 * its server does. A Redis Cluster takes the port 10,000 above as well, which is below them, too, and never given out here.
 */
const ports = { from: 10_000, count: 10_000 };
const mostTries = 100;

/** A port of 127.0.0.1 that no server listens on at the moment. */
export async function freePort(): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = ports.from + randomInt(ports.count);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
    } catch (error) {
      if (tries === mostTries) throw error;
      continue;
    }
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
