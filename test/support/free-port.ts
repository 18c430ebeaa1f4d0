import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that kernels give to outgoing connections (32768 and above), one of which could take the port before
 * its server does. A Redis Cluster takes the port 10,000 above as well, which is below them, too, and never given out here.
 */
const ports = { from: 10_000, count: 10_000 };
const mostTries = 100;

/** A port of 127.0.0.1 that no server listens on, and that no other call gets until this process ends. */
export async function freePort(): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = ports.from + randomInt(ports.count);
    // The UDP port of that number, which no server here takes, reserves it among all processes of tests: a server takes
    // its TCP port a second after the probe.
    const reservation = createSocket('udp4').bind(port, '127.0.0.1');
    const probe = createServer();
    try {
      await once(reservation, 'listening');
      await once(probe.listen(port, '127.0.0.1'), 'listening');
    } catch (error) {
      reservation.close();
      if (tries === mostTries) throw error;
      continue;
    }
    reservation.unref();
    probe.close();
    await once(probe, 'close');
    return port;
  }
}
