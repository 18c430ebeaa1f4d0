/** The schemas of `log`, with its changes at run time, and of `tracing`. */
import { z } from 'zod';
import { duration, durationMs, flag, hour, live, share, baseAddress, credentials } from './schema-parts.ts';

const level = z
  .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
  .default('info')
  .describe('Least serious level of lines. No line holds bodies, query strings or credentials.');

const format = z
  .enum(['auto', 'json', 'text'])
  .default('auto')
  .describe('Form of lines. auto: text for people when standard error is a terminal, otherwise json.');

const accessShare = share(0).describe('Share of all requests that get an access line, 0 to 1.');
const slow = duration('2s', 0, hour).describe('Slower requests get one, whatever the share.');
const failed = flag(true).describe('Requests answered 5xx get one, whatever the share.');

/** The section `log`. */
export const log = z
  .strictObject({
    level: live(level),
    format,
    access: live(
      z
        .strictObject({ share: accessShare, slow, failed })
        .prefault({})
        .describe(
          'Access lines, at level info. Slow and failed requests beyond the share: at most 50 lines a second for each process.',
        ),
    ),
  })
  .prefault({})
  .describe('Log lines.');

/** A change of an operator; absent keys keep their values. `slow` becomes milliseconds. */
export const logChange = z.strictObject({
  level: level.removeDefault().optional(),
  access: z
    .strictObject({
      share: accessShare.removeDefault().optional(),
      slow: slow.removeDefault().transform(durationMs).optional(),
      failed: failed.removeDefault().optional(),
    })
    .optional(),
});

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
