import { createValidatorCompiler, describeErrors } from '@oselya/kit';
import { BODY_LIMIT } from '../limits.ts';
import { type Payload, PayloadSchema } from './schema.ts';
import { findValueErrors } from './values.ts';

// What whoever sends payloads needs of the collector, without all that the collector itself needs.
export { PayloadSchema } from './schema.ts';

/** What is wrong with a payload, and where in it, in the words in which the API refuses it. */
export type PayloadError = { path: string; message: string };

const validate = createValidatorCompiler()({
  schema: PayloadSchema,
  method: 'POST',
  url: '/ingest',
  httpPart: 'body',
});

/**
 * Checks a payload as `POST /ingest` does, before it is sent.
 * @returns Every rule that it breaks; empty for one that is taken in. Contract 4, PayloadSchema.
 */
export function checkPayload(payload: unknown): PayloadError[] {
  if (!isPayload(payload)) return describeErrors('body', validate.errors ?? []);
  const errors = findValueErrors(payload);
  if (errors.length > 0) return errors;
  if (Buffer.byteLength(JSON.stringify(payload)) > BODY_LIMIT) {
    return [{ path: 'body', message: `must be at most ${BODY_LIMIT / 1024} KiB of JSON` }];
  }
  return [];
}

function isPayload(payload: unknown): payload is Payload {
  return validate(payload) === true;
}
