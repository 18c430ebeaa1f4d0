import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config/config.ts';

/** The port that a server listens on; the config may have 0. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** The scheme of clients' URLs. */
export function schemeOf({ listen }: Config): 'http' | 'https' {
  return listen.tls === undefined ? 'http' : 'https';
}

/** `host` as part of a URL that works on this machine. */
export function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
