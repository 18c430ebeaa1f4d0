/** Where a gateway can be reached. */
import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { Config } from '../config/config.ts';

/** The port that a server listens on, whatever it was told. */
export function portOf(app: FastifyInstance): number {
  return (app.server.address() as AddressInfo).port;
}

/** How clients have to ask. */
export function schemeOf({ listen }: Config): 'http' | 'https' {
  return listen.tls === undefined ? 'http' : 'https';
}

/** An address a person on this machine can open. */
export function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}
