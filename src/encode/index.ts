/** The door of encode. */
export { type CompiledModule, compileModule } from './abi.ts';
export { type Distrusted, DistrustedFunctions } from './distrusted.ts';
export { encodeSubmission, type LoadModule } from './encode-submission.ts';
export { type EncodeOutcome, forwardReasons } from './outcome.ts';
export { compareWithNode, isOfUpgrade, type NodeEncoding, ShadowProof } from './shadow.ts';
