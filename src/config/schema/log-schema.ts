/** The keys of `log`, as the config file has them, and as an operator may change them at run time. */
import { z } from 'zod';
import { duration, flag, hour, share } from './schema-parts.ts';

const level = z
  .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
  .default('info')
  .describe('Least serious line that is written. Bodies, query strings and credentials are in none.');

const accessShare = share(0).describe('Share of all requests that get a line, 0 to 1.');
const slow = duration('2s', 0, hour).describe('Requests that take longer get one, whatever the share.');
const failed = flag(true).describe('Requests that are answered 5xx get one, whatever the share.');

export const log = z
  .strictObject({
    level,
    access: z
      .strictObject({ share: accessShare, slow, failed })
      .prefault({})
      .describe(
        'Which requests get a line of their own, at level info. Slow and failed ones beyond the share: at most 50 a second for each process.',
      ),
  })
  .prefault({})
  .describe('Log lines.');

/** What is not given stays as it is. */
export const logChange = z.strictObject({
  level: level.removeDefault().optional(),
  access: z
    .strictObject({
      share: accessShare.removeDefault().optional(),
      slow: slow.removeDefault().optional(),
      failed: failed.removeDefault().optional(),
    })
    .optional(),
});
