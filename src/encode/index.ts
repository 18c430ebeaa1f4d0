/** Signing messages from requests and ABIs, and the proof of their bytes by nodes. */
export { compileModule } from './abi.ts';
export { encodeSubmission, type LoadModule } from './encode-submission.ts';
export { type EncodeOutcome, forwardReasons } from './outcome.ts';
export { DistrustedFunctions, NodeEncoding, ShadowProof } from './shadow.ts';
