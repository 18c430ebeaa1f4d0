/** The clients of one stream of requests, and the connections that they send them over. */
import type { Random } from './random.ts';

export interface ClientsShape {
  /** Requests a second of one client: of its key, or of its address. */
  readonly clientRate: number;
  /** Of one connection. Above `clientRate`: a proxy's, which any client uses. Below: a client has several. */
  readonly connectionRate: number;
  /** Requests of a page, which one client sends at about the same time. */
  readonly pageRequests: number;
}

/** The sender of a request. */
export interface Sender {
  readonly client: number;
  readonly connection: number;
}

/** A page is sent within about this time. */
const pageMs = 200;

export class Clients {
  readonly #shape: ClientsShape;
  readonly #clients: number;
  readonly #connections: number;
  /** Pages that are being sent, each by the client at this part of all. */
  readonly #pages: number[] = [];
  readonly #openPages: number;

  /** `rate`: requests a second of the stream. */
  constructor(shape: ClientsShape, rate: number) {
    this.#shape = shape;
    this.#clients = Math.max(1, Math.round(rate / shape.clientRate));
    this.#connections = Math.max(1, Math.round(rate / shape.connectionRate));
    this.#openPages = Math.max(1, Math.round((rate / shape.pageRequests) * (pageMs / 1000)));
  }

  draw(random: Random): Sender {
    const { clientRate, connectionRate } = this.#shape;
    const at = this.#page(random);
    const isPooled = connectionRate > clientRate;
    return {
      client: Math.floor(at * this.#clients),
      connection: Math.floor((isPooled ? random() : at) * this.#connections),
    };
  }

  #page(random: Random): number {
    const { pageRequests } = this.#shape;
    if (pageRequests === 1) return random();
    const open = this.#pages[Math.floor(random() * this.#pages.length)];
    if (open !== undefined && random() * pageRequests >= 1) return open;
    const page = random();
    this.#pages.push(page);
    if (this.#pages.length > this.#openPages) this.#pages.shift();
    return page;
  }
}
