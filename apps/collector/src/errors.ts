import {
  commonErrors,
  createProblemFactory,
  createProblemResponses,
  type ErrorDefinition,
} from '@oselya/kit';

/**
 * Errors of the collector, in responses and in raw records whose job ended `invalid` or `failed` or was postponed.
 * Contract 2. docs/errors.md is generated from this table and the assistant's.
 */
export const errors = {
  // `problemResponses(401)` selects the first error with that status, so this entry comes first.
  unauthorized: {
    status: 401,
    title: 'API key needed',
    advice:
      'Send a valid API key as `Authorization: Bearer …`; create one with `npx oselya api-key create`.',
  },
  ...commonErrors,
  forbidden: {
    status: 403,
    title: 'Not allowed',
    advice: 'This API key lacks the scope or the source. Use or request a different key.',
  },
  cross_site_request: {
    status: 403,
    title: 'Request from another site',
    advice:
      'Without API keys, the collector rejects changes that other websites request. Use the same website, or set COLLECTOR_AUTH.',
  },
  unknown_host: {
    status: 421,
    title: 'Request for another host',
    advice:
      'Without API keys, the collector accepts only requests for this machine. Use its loopback address, or set COLLECTOR_AUTH.',
  },
  raw_not_found: {
    status: 404,
    title: 'No such payload',
    advice: 'There is no payload with this ID. Use the `raw_id` from the ingest response.',
  },
  listing_not_found: {
    status: 404,
    title: 'No such listing',
    advice: 'There is no listing with this ID. Search for the listing, or look at its payload.',
  },
  api_key_not_found: {
    status: 404,
    title: 'No such API key',
    advice: 'There is no active API key with this ID. See `GET /api/v1/admin/api-keys`.',
  },
  image_not_found: {
    status: 404,
    title: 'No such image',
    advice: 'There is no image with this SHA-256. See the images of the listing.',
  },
  ingest_failed: {
    status: 500,
    title: 'The payload could not be stored',
    advice:
      'The database did not respond. Send the payload again; with the same `Idempotency-Key`, it is stored once.',
    canRetry: true,
  },
  ingest_busy: {
    status: 503,
    title: 'Too many payloads at once',
    advice:
      'This process has reached its limit of payloads in progress, because the database is slow or the load is high. Send the payload again in a moment.',
    canRetry: true,
  },
  uploads_busy: {
    status: 503,
    title: 'Too many uploads at once',
    advice:
      'Four times as many payloads with images as COLLECTOR_UPLOADS are being received or processed. Send the payload again in a moment.',
    canRetry: true,
  },
  idempotency_conflict: {
    status: 409,
    title: 'Idempotency key used before',
    advice:
      'The key was sent with a different payload in the last 24 hours. Send a new key with a new payload.',
  },
  not_retryable: {
    status: 409,
    title: 'Nothing to retry',
    advice: 'Only payloads with the status `failed` or `invalid` can be retried.',
  },
  not_a_listing: {
    status: 422,
    title: 'Not a property listing',
    advice:
      'The model found no property listing in the payload. Read the reason, then correct the source.',
  },
  listing_not_embedded: {
    status: 409,
    title: 'Listing not ready for similar search',
    advice:
      'The listing has no embedding yet. Wait until its payload is completed, then try again.',
    canRetry: true,
  },
  model_unavailable: {
    status: 503,
    title: 'The model does not respond',
    advice: 'The request needs the model. Check the model server, then try again.',
    canRetry: true,
  },
  model_failed: {
    status: 502,
    title: 'The model failed',
    advice:
      'The model server rejected the request or gave an unusable answer. Check it, then retry the payload or the search.',
    canRetry: true,
  },
  stage_timed_out: {
    status: 503,
    title: 'A stage took too long',
    advice: 'A stage of the pipeline exceeded its time limit. Retry the payload.',
    canRetry: true,
  },
  lease_lost: {
    status: 503,
    title: 'The workers were lost',
    advice:
      'Each worker that claimed the payload ended before the payload was processed. Retry the payload.',
    canRetry: true,
  },
  still_processing: {
    status: 409,
    title: 'Still being processed',
    advice:
      'The payload with this idempotency key is still being processed. Send the request again in a moment.',
    canRetry: true,
  },
  interrupted: {
    status: 503,
    title: 'Processing was interrupted',
    advice:
      'A service was not available, or the process was stopped. Uploaded images were deleted: send the payload again. A payload without uploads is back in the queue.',
    canRetry: true,
  },
  image_store_unavailable: {
    status: 503,
    title: 'The image store cannot be used',
    advice:
      'Images cannot be stored at present. Check the folder or the bucket and its permissions, then try again.',
    canRetry: true,
  },
  disk_low: {
    status: 503,
    title: 'Too little disk space',
    advice:
      'Less than MIN_FREE_DISK_MB is free, so nothing is stored. Free some space, then send the request again.',
    canRetry: true,
  },
} satisfies Record<string, ErrorDefinition>;

/** Stable error code. Contract 2. */
export type ErrorCode = keyof typeof errors;

/** Creates a collector error. */
export const problem = createProblemFactory(errors);

/** Creates the response schemas of errors, by code or by status. */
export const problemResponses = createProblemResponses(errors);
