/** The door of sample. */
export { curlExamples, startSampleFleet } from './sample-fleet.ts';
