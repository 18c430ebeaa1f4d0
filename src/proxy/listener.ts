/**
 * What happens to a request before it is routed: what is no fit request is refused, what has been read before under the
 * same text is answered from memory, and signing messages go straight to the encoder.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../ledger/errors.ts';
import { writeRefusal } from './broken-request.ts';
import { findHit, giveRead, guard, isOfLatest, takeBody } from './answer-read.ts';
import { statesDemand } from './consistency.ts';
import { Exchange } from './exchange.ts';
import { faultOfHead, notAllowed } from './request-faults.ts';
import type { ServerParts } from './server-parts.ts';
import { longestTarget, originForm } from './target.ts';

const httpOptions = {
  // Above the longest target and the usual headers; the default of 16 kB would refuse targets that are served.
  maxHeaderSize: longestTarget + 32 * 1024,
  headersTimeout: 15_000,
  requestTimeout: 60_000,
  // Longer than balancers keep idle connections (60 s), so that they never send into one that is closing.
  keepAliveTimeout: 75_000,
  // Checked below: Node's own refusal has no body.
  requireHostHeader: false,
};

/** On each connection, the answer to its newest request: a member costs a hit a tenth of what a map would. */
const newest = Symbol('newest response');

interface Connection {
  [newest]?: ServerResponse;
}

export function newestResponse(socket: Duplex): ServerResponse | undefined {
  return (socket as Connection)[newest];
}

/** The HTTP server that `handler` routes for. */
export function createHttpServer(
  handler: (request: IncomingMessage, response: ServerResponse) => void,
  parts: ServerParts,
): Server {
  const { replier, observer } = parts;
  const refuse = (request: IncomingMessage, response: ServerResponse, error: unknown): void =>
    replier.error(new Exchange(request, response, 'none', observer), error);
  const serve = (request: IncomingMessage, response: ServerResponse): void => {
    request.url = originForm(request.url ?? '');
    const fault = faultOfHead(request);
    try {
      if (fault !== undefined) throw fault;
      if (!answerKnown(parts, request, response) && !takeEncode(parts, request, response)) handler(request, response);
    } catch (error) {
      refuse(request, response, error);
    }
  };
  const server = createServer(httpOptions, (request, response) => {
    (request.socket as Connection)[newest] = response;
    if (parts.gate === undefined) serve(request, response);
    else admit(parts, () => serve(request, response));
  });
  // Node's own refusal has no body. `Expect: 100-continue` does not come here.
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    (request.socket as Connection)[newest] = response;
    const answer = (): void =>
      refuse(request, response, new GatewayError('expectationFailed', 'only 100-continue can be expected'));
    admit(parts, answer);
  });
  // Nothing is tunnelled; Node would close the connection without a word.
  return server.on('connect', (_request, socket) => writeRefusal(socket, notAllowed(), headersNow(parts)));
}

/** The live ledger headers; none while what is shown to clients is being agreed on. */
export function headersNow({ gate, replier }: ServerParts): readonly string[] {
  return gate?.isOpen() === false ? [] : replier.ledgerHeaders();
}

/** Runs `serve` now, or when what is shown to clients is agreed on. */
function admit({ gate }: ServerParts, serve: () => void): void {
  if (gate === undefined || gate.isOpen()) serve();
  else void gate.pass().then(serve);
}

/** Answers from memory what has been read before under the same text, ahead of routing. False: not answered. */
function answerKnown(parts: ServerParts, request: IncomingMessage, response: ServerResponse): boolean {
  if (request.method !== 'GET' && request.method !== 'HEAD') return false;
  const alias = parts.aliases.find(request.url ?? '', request.headers.accept);
  // What a client asks of freshness may be unreadable: such a request is answered where errors are.
  if (alias !== undefined && isOfLatest(alias.read) && statesDemand(request)) return false;
  const hit = alias === undefined ? undefined : findHit(parts, alias.read, request);
  if (alias === undefined || hit === undefined) return false;
  const exchange = new Exchange(request, response, alias.route, parts.observer);
  void guard(parts, exchange, () => giveRead(parts, exchange, hit));
  return true;
}

/** Takes a request for a signing message ahead of routing: that costs as much again as encoding. False: not taken. */
function takeEncode(parts: ServerParts, request: IncomingMessage, response: ServerResponse): boolean {
  const { encoder, basePath } = parts;
  if (encoder === undefined || request.method !== 'POST') return false;
  if (request.url !== `${basePath}/transactions/encode_submission`) return false;
  takeBody(parts, 'encode_submission', { request, response }, (exchange, body) => encoder.serve(exchange, body));
  return true;
}
