/** The charge of a request to its principal's account. */
import type { Plan, Principal } from '../keys/principals.ts';
import type { Bounds, Charge } from './counter.ts';

/** The charge of a principal. `address`: of a client with a key. */
export function chargeOf(principal: Principal, cost: number, address: string | undefined): Charge {
  const { name, tenant, plan } = principal;
  const bounds = boundsOf(plan);
  const counted = bounds.perAddress === undefined ? undefined : name === undefined ? tenant : address;
  return { subject: subjectOf(principal), hasKey: name !== undefined, bounds, cost, address: counted };
}

/** Tenants and addresses are distinct: a tenant may be named like an address. One text per principal of a key. */
export function subjectOf(principal: Principal): string {
  const known = knownSubjects.get(principal);
  if (known !== undefined) return known;
  const { name, tenant, plan } = principal;
  // Claims of tokens may hold what separates names in Redis, and what marks the part that places them in a cluster.
  const own = name === undefined ? `address:${tenant}` : `tenant:${tenant.replace(/[%:{}]/g, encodeURIComponent)}`;
  const subject = `${plan.name}:${own}`;
  if (name !== undefined) knownSubjects.set(principal, subject);
  return subject;
}

const knownSubjects = new WeakMap<Principal, string>();

const knownBounds = new WeakMap<Plan, Bounds>();

/** The counted part of a plan, one object per plan: plain data for IPC. */
export function boundsOf(plan: Plan): Bounds {
  const known = knownBounds.get(plan);
  if (known !== undefined) return known;
  const { windowMs, requests, cost, burst, concurrency, perAddress, quota } = plan;
  const bounds = { windowMs, requests, cost, burst, concurrency, perAddress, quota };
  knownBounds.set(plan, bounds);
  return bounds;
}

/** Streams have no span. A new one begins a new account, which would forget the open streams at a reload. */
const streamsWindowMs = 1_000;
const knownStreamBounds = new WeakMap<Plan, Bounds>();

/** The bound of a plan's event streams, as one of requests in flight. */
export function streamBoundsOf(plan: Plan): Bounds {
  let known = knownStreamBounds.get(plan);
  if (known === undefined) {
    known = { windowMs: streamsWindowMs, concurrency: plan.streams };
    knownStreamBounds.set(plan, known);
  }
  return known;
}
