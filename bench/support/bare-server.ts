/** The floor: a bare node:http server that answers the bytes and headers of another server's answers. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const [origin = '', ...paths] = process.argv.slice(2);
const answers = new Map<string, { readonly head: string[]; readonly body: Buffer }>();
for (const path of paths) {
  // Asked twice, so that the answer is the one that is given to a hit.
  await (await fetch(origin + path)).arrayBuffer();
  const response = await fetch(origin + path, { headers: { 'accept-encoding': 'identity' } });
  const own = new Set(['date', 'connection', 'keep-alive']);
  const head = [...response.headers].filter(([name]) => !own.has(name)).flat();
  answers.set(path, { head, body: Buffer.from(await response.arrayBuffer()) });
}

const server = createServer((request, response) => {
  const answer = answers.get(request.url ?? '');
  if (answer === undefined) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, answer.head);
  response.end(answer.body);
});
server.keepAliveTimeout = 75_000;
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`);
});
