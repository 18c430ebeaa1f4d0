/**
 * A client process: `node test/bench/closed-loop.ts URL CONNECTIONS ANSWERS [HEADER]` asks for the URL over and over,
 * each connection as soon as it was answered, until there are so many answers. Anything but a whole 200 ends it.
 */
import { connect } from 'node:net';
import process from 'node:process';

const [, , address = '', connections = '1', wanted = '1', header] = process.argv;
const url = new URL(address);
const headers = [`Host: ${url.host}`, 'accept: application/json', ...(header === undefined ? [] : [header])];
const request = `GET ${url.pathname}${url.search} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`;
let answers = 0;

for (let count = 0; count < Number(connections); count += 1) {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  let text = '';
  const ask = (): void => void socket.write(request);
  socket.on('connect', ask);
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    const body = text.indexOf('\r\n\r\n') + 4;
    if (body < 4) return;
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text.slice(0, body))?.[1]);
    if (!text.startsWith('HTTP/1.1 200 ') || Number.isNaN(length)) throw new Error(text);
    if (text.length < body + length) return;
    text = '';
    answers += 1;
    if (answers === Number(wanted)) process.exit();
    ask();
  });
  socket.on('close', () => {
    throw new Error('the connection was closed');
  });
}
