/** The floor for encode_submission: a bare node:http server around our own encoder, its modules loaded beforehand. */
import { createServer } from 'node:http';
import { compileModule, type CompiledModule } from '../../src/encode/abi.ts';
import { encodeSubmission } from '../../src/encode/encode-submission.ts';
import { listen } from './node-process.ts';

const [nodeUrl = '', ...names] = process.argv.slice(2);
const modules = new Map<string, CompiledModule>();
for (const name of names) {
  const answer = await fetch(`${nodeUrl}/accounts/0x1/module/${name}`);
  modules.set(`0x1::${name}`, compileModule(await answer.text()));
}
const context = {
  chainId: 1,
  signingDomain: 'APTOS',
  loadModule: (address: string, name: string) => Promise.resolve(modules.get(`${address}::${name}`)),
};
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    void encodeSubmission(utf8.decode(Buffer.concat(chunks)), context).then((outcome) => {
      const body = JSON.stringify(outcome.kind === 'encoded' ? outcome.hex : outcome);
      response.writeHead(outcome.kind === 'encoded' ? 200 : 400, {
        'Content-Type': 'application/json; charset=utf-8',
        'Content-Length': Buffer.byteLength(body),
      });
      response.end(body);
    });
  });
});
listen(server, '', 75_000);
