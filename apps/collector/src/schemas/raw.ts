import { type Static, Type } from 'typebox';
import { choice, nullable } from './common.ts';

/** Where a payload is on its way. Specification 001, Raw data status. */
export const RAW_STATUSES = ['pending', 'processing', 'completed', 'invalid', 'failed'] as const;

/** How a stage of the pipeline ended, as answers have it. docs/pipeline.md, Stages. */
export const stageOutcomeSchema = choice(
  ['done', 'skipped', 'unchanged', 'superseded', 'invalid', 'failed', 'postponed'],
  {
    description:
      '`skipped` had nothing to do. `unchanged`: the payload says nothing new. `superseded`: the listing was made ' +
      'from a newer payload meanwhile. `invalid` and `failed` ended the payload, whose `error` has the reason. ' +
      '`postponed`: what the stage needs was not there, and the payload went back to the queue.',
  },
);

/** How a stage of the pipeline ended. */
export type StageOutcome = Static<typeof stageOutcomeSchema>;

/** Why a payload is invalid or failed, or was put back and waits. */
export const rawErrorSchema = nullable(
  Type.Object({
    code: Type.String({ description: 'See docs/errors.md.' }),
    message: Type.String(),
    stage: Type.Optional(Type.String()),
  }),
);

/** A status of a payload, as requests and answers have it. */
export const rawStatusSchema = choice(RAW_STATUSES);
