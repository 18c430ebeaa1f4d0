/**
 * The cost of the Redis client alone, used as the gateway does, in a process of its own:
 *
 *     node bench/support/redis-client.ts PORT BYTES UNDER_WAY
 *
 * Prints microseconds of processor time for a look-up of one command (GET), and of two, one after the other (HGET, GET).
 */
import { Redis } from 'ioredis';
import { gatherCommands } from '../../src/cache/redis/redis-source.ts';

const [, , port, bytes, underWay] = process.argv;
const values = 1_000;
const warmUpMs = 1_500;
const measuredMs = 1_500;

const client = new Redis(Number(port));
gatherCommands(client);

async function fill(): Promise<void> {
  const body = Buffer.alloc(Number(bytes), 'x');
  for (let index = 0; index < values; index += 1) {
    await client.set(`answer-${index}`, body);
    await client.hset(`page-${index}`, '7', `answer-${index}`);
  }
}

async function ask(index: number, commands: number): Promise<void> {
  const name = commands === 2 ? await client.hget(`page-${index}`, '7') : `answer-${index}`;
  await client.getBuffer(name ?? '');
}

/** Processor time of a look-up, in microseconds. */
async function measure(commands: number, ms: number): Promise<number> {
  const before = process.cpuUsage();
  const endMs = performance.now() + ms;
  let done = 0;
  const askOn = async (): Promise<void> => {
    for (; performance.now() < endMs; done += 1) await ask(done % values, commands);
  };
  await Promise.all(Array.from({ length: Number(underWay) }, askOn));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / done;
}

await fill();
const taken: string[] = [];
for (const commands of [1, 2]) {
  await measure(commands, warmUpMs);
  taken.push((await measure(commands, measuredMs)).toFixed(1));
}
client.disconnect();
process.stdout.write(taken.join(' '));
