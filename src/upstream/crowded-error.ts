/** No place at a node was to be had for a request. */
import { GatewayError } from '../ledger/errors.ts';

export class CrowdedError extends GatewayError {
  /** Whose request it was. Another client, whose own requests are fewer, may be given a place for the same. */
  readonly client: string;

  constructor(client: string) {
    super('unavailable', 'the nodes have more to do than they can now; try again');
    this.client = client;
  }
}
