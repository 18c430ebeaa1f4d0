/**
 * The floor: a bare node:http server that answers the bytes and headers of another server's answers.
 * `node bench/support/bare-server.ts ORIGIN PATH COUNT`, with `%A` in the path for COUNT accounts.
 */
import { createServer } from 'node:http';
import { askAll } from './ask-all.ts';
import { pathsOf } from './load.ts';
import { listen } from './node-process.ts';

const [origin = '', ...loads] = process.argv.slice(2);
const answers = new Map<string, { readonly head: string[]; readonly body: Buffer }>();
const own = new Set(['date', 'connection', 'keep-alive']);
for (let at = 0; at < loads.length; at += 2) {
  const paths = pathsOf({ path: loads[at] ?? '', order: { kind: 'turns', of: Number(loads[at + 1]) } });
  // Asked twice, so that the answer is the one that is given to a hit.
  await askAll(origin, paths);
  await askAll(origin, paths, ({ path, head, body }) => {
    answers.set(path, {
      head: head.filter((_, index) => !own.has(String(head[index - (index % 2)]).toLowerCase())),
      body,
    });
  });
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
listen(server, '', 75_000);
