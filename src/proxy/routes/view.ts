/** `POST /view`: runs a read-only function. Pinned, its answer is as final as a resource's. */
import { parseViewBody, type ViewContentType } from '../../cache/view-body.ts';
import { GatewayError } from '../../ledger/errors.ts';
import { answerForm } from '../http/negotiate.ts';
import { mediaType, needOf, withVersion, type PathRead } from './parse-read.ts';
import type { Read } from '../reads/read-result.ts';
import { versionParameter } from '../http/target.ts';

/** Nodes compare the whole header text: with a charset parameter it is another type (protocol 2.4). */
const contentTypes: ReadonlySet<string> = new Set(['application/json', 'application/x.aptos.view_function+bcs']);

/** Parses query and body; throws `GatewayError` 400 or 415. `digest`: of a large body, see `digestInTurns`. */
export function viewRead(
  request: PathRead & {
    readonly contentType: string | undefined;
    readonly body: Buffer;
    readonly digest?: string | undefined;
  },
): Read {
  const contentType = viewContentType(request.contentType);
  const version = versionParameter(request.target);
  const form = answerForm(request.accept);
  const { subject, bytes } = parseViewBody(contentType, request.body, request.digest);
  return {
    operation: 'view',
    subject,
    version,
    form,
    wire: {
      method: 'POST',
      path: withVersion('/view', version),
      headers: { accept: mediaType[form], 'content-type': contentType },
      body: bytes,
    },
    need: needOf(version),
  };
}

/** The content type of a view's body. Throws `GatewayError` 415 for any other. */
export function viewContentType(contentType: string | undefined): ViewContentType {
  if (contentType === undefined) {
    throw new GatewayError('unsupportedMediaType', 'the client request does not include the `Content-Type` header');
  }
  if (!contentTypes.has(contentType)) {
    throw new GatewayError('unsupportedMediaType', 'the `Content-Type` requested by the client is not supported');
  }
  return contentType as ViewContentType;
}
