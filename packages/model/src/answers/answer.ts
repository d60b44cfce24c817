import type { TSchema } from 'typebox';
import { defineModelSchema, type ModelSchema } from '../model-schema.ts';

/** An answer that a model is asked for, with the schema that checks it and the one that is sent. */
export type ModelAnswer<S extends TSchema = TSchema> = {
  /** The schema's name in the request; the mock chooses its rules by it. */
  schemaName: string;
  /** Answers are checked against it. */
  schema: S;
  sentSchema: ModelSchema;
  /** The longest answer, in tokens: a model that repeats itself is stopped there. */
  maxOutputTokens: number;
};

/**
 * Defines an answer.
 * @throws TypeError where a server might not know the schema; see {@link defineModelSchema}.
 */
export function defineAnswer<S extends TSchema>(
  answer: Omit<ModelAnswer<S>, 'sentSchema'>,
): ModelAnswer<S> {
  return { ...answer, sentSchema: defineModelSchema(answer.schemaName, answer.schema) };
}
