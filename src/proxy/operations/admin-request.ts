/** Operators' requests in plain data. A described request is matched and parsed as a client's, never answered. */
import { z } from 'zod';
import { quote } from '../../ledger/index.ts';

/** An answer to an operator: plain data that can cross to another process. */
export interface AdminAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** An operator's request failed; status and message of the answer. */
export class AdminFault extends Error {
  override readonly name = 'AdminFault';
  readonly status: 400 | 404 | 409 | 503;

  constructor(status: AdminFault['status'], message: string) {
    super(message);
    this.status = status;
  }
}

/** Faults by place; `where` names the request, which is not quoted. From an unknown field the others mostly follow. */
export function faultsOf({ issues }: z.ZodError, where: string): string {
  const unknown = issues.filter(({ code }) => code === 'unrecognized_keys');
  return (unknown.length === 0 ? issues : unknown)
    .map(({ path, message }) => `${path.join('.') || where}: ${message}`)
    .join('; ');
}

/** The answer of `serve`, or to its `AdminFault`. */
export async function orFault<Answer extends AdminAnswer>(serve: () => Promise<Answer>): Promise<Answer | AdminAnswer> {
  try {
    return await serve();
  } catch (error) {
    if (!(error instanceof AdminFault)) throw error;
    return { status: error.status, body: { message: error.message } };
  }
}

/** The value by its schema. Throws `AdminFault` 400. */
export function parseBy<T>(schema: z.ZodType<T>, value: unknown, where: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new AdminFault(400, faultsOf(parsed.error, where));
}

/** An object with these fields and no other. `form`: the words for it in an error. */
export function fieldsOf<Shape extends z.ZodRawShape>(shape: Shape, form = 'an object') {
  const names = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has an unknown field ${quote(issue.keys[0] ?? '')}; use ${names}`
        : `must be ${form}`,
  });
}

const text = z
  .string({
    error: ({ input }) =>
      input === undefined ? 'is needed, such as "/v1/accounts/0x1/module/coin"' : 'must be given once, as text',
  })
  // UTF-8 would replace a lone surrogate, and the text would describe another request.
  .refine((given) => given.isWellFormed(), { error: 'must be text that UTF-8 can hold' });

/** The schema of a described request. */
export const described = fieldsOf({
  // With the base path and the query, percent-encoded as clients send it.
  target: text,
  // Default: GET, or POST with a body.
  method: text.optional(),
  accept: text.optional(),
  // Default: JSON, with a body.
  contentType: text.optional(),
  body: text.optional(),
});

/** A client's request in plain data. */
export type DescribedRequest = z.output<typeof described>;

const explained = fieldsOf({
  ...described.shape,
  // The client's; default: that of requests without a key.
  plan: text.optional(),
  // Value of the client's header.
  maxStaleness: text.optional(),
});

/** A request to explain: what a client with this plan and this `Ledgergate-Max-Staleness` would send. */
export type ExplainedRequest = z.output<typeof explained>;

/** Parses a request to explain. Throws `AdminFault` 400. */
export function parseExplained(value: unknown): ExplainedRequest {
  return parseBy(explained, value, 'the query');
}
