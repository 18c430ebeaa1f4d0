/** Signing messages from requests and ABIs, and the proof of their bytes by nodes. */
export { compileModule } from './abi.ts';
export { DistrustedFunctions } from './distrusted.ts';
export { encodeSubmission, type LoadModule } from './encode-submission.ts';
export { type EncodeOutcome, forwardReasons } from './outcome.ts';
export { NodeEncoding, ShadowProof } from './shadow.ts';
