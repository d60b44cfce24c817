import { ModelError } from '@oselya/model';
import type { DescribeError } from '../tables.ts';
import { storableMessage } from '../text.ts';
import { ImageError } from './image-error.ts';

/** Statuses of a server that speaks of the request itself: malformed, too large, of a type it does not take. */
const OF_THE_REQUEST: ReadonlySet<number | undefined> = new Set([400, 413, 415, 422]);

/** Why a picture was not shown to the model at all: it is gone from the store, or broken there. */
export const UNREADABLE = 'IMAGE_UNREADABLE';

/** What a picture is described with. */
export type Asked = Pick<DescribeError, 'requested_model' | 'prompt_version'>;

/**
 * Whether a failure of the model is of the one picture that it was shown. Any other says something of the
 * server, of its settings or of the way to it, and of no picture. ADR 0017.
 */
export function isOfPicture(error: unknown): error is ModelError {
  if (!(error instanceof ModelError)) return false;
  const { code, status } = error;
  return (
    code === 'MODEL_REFUSED' ||
    code === 'MODEL_INVALID_OUTPUT' ||
    code === 'MODEL_TRUNCATED' ||
    code === 'MODEL_UNSUPPORTED' ||
    code === 'MODEL_INPUT_TOO_LARGE' ||
    (code === 'MODEL_REJECTED' && OF_THE_REQUEST.has(status))
  );
}

/** Why a picture has no description, as it is recorded with it. */
export function toDescribeError(error: ModelError | ImageError, asked: Asked): DescribeError {
  return {
    code: error instanceof ImageError ? UNREADABLE : error.code,
    message: storableMessage(error.message),
    ...asked,
    failed_at: new Date().toISOString(),
  };
}
