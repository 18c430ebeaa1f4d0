/**
 * The trace of a client's request (W3C Trace Context) while the gateway records none: it is handed on to the node as it
 * came, so that the trace is not cut. Both headers are untrusted.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { SilentSpan, type Span } from './span.ts';

/** Version, trace, parent, flags; `ff` is no version, and all zeros are no trace and no parent (section 3.2). */
const parentForm = /^(?!ff)[\da-f]{2}-(?!0{32})[\da-f]{32}-(?!0{16})[\da-f]{16}-[\da-f]{2}$/;

/** Every receiver has to take this much, and none more (section 3.3.1.5). */
const longestState = 512;
const mostMembers = 32;
const keyForm = /^(?:[a-z][\w*/-]{0,255}|[a-z\d][\w*/-]{0,240}@[a-z][\w*/-]{0,13})$/;
/** Printable, no comma, no equals sign, no space at its end (section 3.3.1.3.2). */
const valueForm = /^[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/** A span that only carries the client's trace on; `undefined` where there is none, or nothing that can be one. */
export function passedOn({ traceparent, tracestate }: IncomingHttpHeaders): Span | undefined {
  if (typeof traceparent !== 'string' || !parentForm.test(traceparent)) return undefined;
  const headers = isState(tracestate) ? { traceparent, tracestate } : { traceparent };
  return new SilentSpan(() => headers);
}

/** A malformed state is left out whole; the trace goes on without it. */
function isState(text: unknown): text is string {
  if (typeof text !== 'string' || text.length > longestState) return false;
  const members = text.split(',').map((member) => member.trim());
  return members.length <= mostMembers && members.some(Boolean) && members.every((member) => isMember(member));
}

/** An empty one is allowed. */
function isMember(member: string): boolean {
  const [key = '', value, ...rest] = member.split('=');
  return member === '' || (rest.length === 0 && value !== undefined && isKey(key) && valueForm.test(value));
}

function isKey(key: string): boolean {
  return keyForm.test(key) && key === key.toLowerCase();
}
