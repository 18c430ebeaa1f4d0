/** The schema of `tracing`. */
import { z } from 'zod';
import { baseAddress, credentials, share } from './schema-parts.ts';

/** The section `tracing`. */
export const tracing = z
  .strictObject({
    endpoint: baseAddress('http://127.0.0.1:4318')
      .refine((text) => !/\/v1\/traces\/?$/.test(text), { error: 'must end before /v1/traces, which is appended' })
      .describe('Base address of a collector of OTLP over HTTP; /v1/traces is appended.'),
    headers: credentials().optional().describe('Headers of every export, such as credentials for the collector.'),
    share: share(0.01).describe(
      'Share of traces that are recorded, 0 to 1. A trace that its client does not record is not recorded here either.',
    ),
  })
  .describe('Traces by OpenTelemetry. Absent: off, unless an SDK is registered by --import.');
