/** Counters, gauges and histograms with the families of the gateway, the journal of events, and traces. */
export { ejectionText } from './event-kinds.ts';
export { expose } from './exposition.ts';
export {
  combinations,
  Count,
  Counter,
  familiesOf,
  type FamilyData,
  Gauge,
  Histogram,
  labelSources,
  readFamilies,
} from './family.ts';
export { type ExpiringFile, type FileTexts, Renewals, SharedFiles } from './renewals.ts';
export { joinFamilies } from './join.ts';
export { describeEvent, Journal } from './journal.ts';
export { type CountedRequest, lagVersions, type Outcome, outcomes, requestSeconds } from './request-labels.ts';
export { type Sdk, type Span, Tracer, within } from './trace/span.ts';

/** Records spans at a collector. Its library is loaded on demand: most configs need none. */
export async function loadOtlp() {
  return import('./trace/otlp.ts');
}
