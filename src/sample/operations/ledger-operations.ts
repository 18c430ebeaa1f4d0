/** Ledger information, health, gas price, and answers about the node itself. */
import type { SampleCall } from '../call.ts';
import { answerIn, jsonAnswer, type SampleAnswer, u64Bytes } from '../answer.ts';
import { frameworkError, nodeError } from '../node-error.ts';

/** `GET /`: the numbers of this answer's own headers. */
export function answerLedgerInfo(call: SampleCall): SampleAnswer {
  const { ledger } = call;
  const body = {
    chain_id: ledger.chainId,
    epoch: String(ledger.epoch),
    ledger_version: String(ledger.version),
    oldest_ledger_version: String(ledger.oldestVersion),
    ledger_timestamp: String(ledger.timestampUsec),
    node_role: 'full_node',
    oldest_block_height: String(ledger.oldestBlockHeight),
    block_height: String(ledger.blockHeight),
    git_hash: 'ledgergate-sample',
  };
  return answerIn(call.form, JSON.stringify(body));
}

/** `GET /-/healthy?duration_secs=`: whether the ledger's timestamp is that young. */
export function answerHealthy(call: SampleCall): SampleAnswer {
  const text = call.query.get('duration_secs');
  if (text !== null && !/^\d{1,9}$/.test(text)) throw frameworkError(400, 'failed to parse parameter `duration_secs`');
  const ageMs = Date.now() - Number(call.ledger.timestampUsec / 1000n);
  if (text !== null && ageMs > Number(text) * 1000) {
    const skew = `which is beyond the allowed skew (${text}s)`;
    throw nodeError(503, 'health_check_failed', `The latest ledger info timestamp is ${ageMs}ms, ${skew}.`);
  }
  return jsonAnswer('{"message":"aptos-node:ok"}');
}

/** `GET /estimate_gas_price`. */
export function answerGasPrice(call: SampleCall): SampleAnswer {
  const json = '{"deprioritized_gas_estimate":100,"gas_estimate":100,"prioritized_gas_estimate":150}';
  return answerIn(call.form, json, () => u64Bytes(100n));
}

const openapi = { openapi: '3.0.0', info: { title: 'Ledgergate sample node', version: '1.2.0' }, paths: {} };

/** `GET /spec`: a page that shows the specification. */
export const spec = bare(
  'text/html',
  '<!doctype html><title>Ledgergate sample node</title><a href="spec.json">spec.json</a>',
);
/** `GET /spec.json`. */
export const specJson = bare('application/json', JSON.stringify(openapi));
/** `GET /spec.yaml`. JSON is YAML. */
export const specYaml = bare('application/x-yaml', JSON.stringify(openapi, undefined, 2));
/** `GET /info`. */
export const info = bare('application/json', '{"build_package_name":"ledgergate-sample","chain_role":"full_node"}');

/** About the node itself: no ledger headers (protocol 2.2). */
function bare(contentType: string, body: string): () => SampleAnswer {
  return () => ({ status: 200, contentType, body, ledgerHeaders: false });
}
