/** An SDK that an operator registers by `--import`: it exports each span at once to `OTEL_EXPORTER_OTLP_ENDPOINT`. */
import { propagation, trace } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { defaultResource, detectResources, envDetector } from '@opentelemetry/resources';
import { SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';

trace.setGlobalTracerProvider(
  new TracerProvider({
    resource: defaultResource().merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new SimpleSpanProcessor({ exporter: new OTLPTraceExporter() })],
  }),
);
propagation.setGlobalPropagator(new W3CTraceContextPropagator());
