/** Answers about the node itself. They carry no ledger headers (protocol 2.2). */
import type { SampleAnswer } from '../answer.ts';

const openapi = { openapi: '3.0.0', info: { title: 'Ledgergate sample node', version: '1.2.0' }, paths: {} };

/** `GET /spec`: a page that shows the specification. */
export function answerSpec(): SampleAnswer {
  return bare('text/html', '<!doctype html><title>Ledgergate sample node</title><a href="spec.json">spec.json</a>');
}

/** `GET /spec.json`. */
export function answerSpecJson(): SampleAnswer {
  return bare('application/json', JSON.stringify(openapi));
}

/** `GET /spec.yaml`. JSON is YAML. */
export function answerSpecYaml(): SampleAnswer {
  return bare('application/x-yaml', JSON.stringify(openapi, undefined, 2));
}

/** `GET /info`. */
export function answerInfo(): SampleAnswer {
  return bare('application/json', '{"build_package_name":"ledgergate-sample","chain_role":"full_node"}');
}

function bare(contentType: string, body: string): SampleAnswer {
  return { status: 200, contentType, body, ledgerHeaders: false };
}
