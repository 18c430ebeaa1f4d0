/** The door of metrics. */
export { Count, Counter } from './counter.ts';
export { ejectionText } from './event-kinds.ts';
export { expose, type Exposition } from './exposition.ts';
export { combinations, familiesOf, type FamilyData, type Join, labelSources, readFamilies } from './family.ts';
export { Gauge, type Reading } from './gauge.ts';
export { Histogram } from './histogram.ts';
export { joinFamilies } from './join.ts';
export { describeEvent, Journal } from './journal.ts';
export {
  countedOutcome,
  type CountedRequest,
  countedStatus,
  type Outcome,
  outcomes,
  requestSeconds,
  type RouteName,
  routes,
  shedReasons,
} from './request-labels.ts';
export {
  createTracer,
  findSdk,
  passedOn,
  type Sdk,
  type Span,
  type SpanName,
  type Tracer,
  within,
} from './trace/span.ts';

/** Records spans at a collector. Its library is loaded on demand: most configs need none. */
export async function loadOtlp() {
  return import('./trace/otlp.ts');
}
