import { Type } from 'typebox';
import { choice, nullable } from './common.ts';

/** Where a payload is on its way. Specification 001, Raw data status. */
export const RAW_STATUSES = ['pending', 'processing', 'completed', 'invalid', 'failed'] as const;

/** Why a payload is invalid or failed. */
export const rawErrorSchema = nullable(
  Type.Object({
    code: Type.String({ description: 'See docs/errors.md.' }),
    message: Type.String(),
    stage: Type.Optional(Type.String()),
  }),
);

/** A status of a payload, as requests and answers have it. */
export const rawStatusSchema = choice(RAW_STATUSES);
