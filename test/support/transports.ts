/** One gateway over each transport of its client port, and requests to it. */
import type { TestContext } from 'node:test';
import { testGateway, type TestGateway, type TestGatewayOptions } from './gateway.ts';
import { askH1, askH2, authority, h2Session, type Asked, type Told } from './tls.ts';

export interface Transport {
  readonly gateway: TestGateway;
  readonly ask: (asked: Asked) => Promise<Told>;
}

type Options = Omit<TestGatewayOptions, 'config'>;

/** Each starts a gateway. */
export const transports: Readonly<Record<string, (t: TestContext, options: Options) => Promise<Transport>>> = {
  'the fast path': (t, options) => plain(t, options, true),
  "Node's server": (t, options) => plain(t, options, false),
  TLS: async (t, options) => {
    const { gateway, origin, ca } = await encrypted(t, options);
    return { gateway, ask: (asked) => askH1(origin, asked, ca) };
  },
  'HTTP/2': async (t, options) => {
    const { gateway, origin, ca } = await encrypted(t, options);
    const session = await h2Session(t, origin, ca);
    return { gateway, ask: (asked) => askH2(session, asked) };
  },
};

async function plain(t: TestContext, options: Options, fastPath: boolean): Promise<Transport> {
  const gateway = await testGateway(t, { ...options, config: { listen: { fastPath } } });
  return { gateway, ask: (asked) => askH1(new URL(gateway.url).origin, asked) };
}

async function encrypted(t: TestContext, options: Options) {
  const root = authority(t);
  const gateway = await testGateway(t, { ...options, config: { listen: { tls: root.certify('gateway') } } });
  return { gateway, origin: new URL(gateway.url).origin, ca: root.ca };
}
