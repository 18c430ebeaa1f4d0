/**
 * Traces of the gateway by OTLP over HTTP: copy it, install what it imports beside it, and start the gateway with it.
 *
 *     npm install @opentelemetry/sdk-trace-node @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http
 *     OTEL_SERVICE_NAME=ledgergate OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 \
 *       node --import ./examples/tracing.mjs bin/ledgergate.js serve --config config/example.yaml
 *
 * Workers are started with the same `--import`, and `NODE_OPTIONS="--import /path/to/tracing.mjs"` says the same where the
 * command line is not yours. docs/tracing.md tells what is recorded and what that costs.
 */
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  NodeTracerProvider,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-node';

const {
  OTEL_SDK_DISABLED: disabled,
  OTEL_TRACES_SAMPLER: sampler,
  OTEL_TRACES_SAMPLER_ARG: share = '0.01',
} = process.env;

if (disabled !== 'true') {
  const provider = new NodeTracerProvider({
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
    resource: defaultResource().merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
    // OTEL_TRACES_SAMPLER where it is set.
    ...(sampler === undefined ? { sampler: shareOfTraces(Number(share)) } : {}),
  });
  // The gateway hands its context down by itself: following every promise would cost each request, for nothing.
  provider.register({ contextManager: null });
}

/**
 * A share of all traces. A client's word that its trace is recorded counts for no more than having none: strangers could
 * have every request of theirs recorded. Behind an edge of your own, whose word is good, set OTEL_TRACES_SAMPLER to
 * parentbased_traceidratio.
 */
function shareOfTraces(share) {
  const root = new TraceIdRatioBasedSampler(share);
  return new ParentBasedSampler({ root, remoteParentSampled: root });
}
