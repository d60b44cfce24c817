import type { RawError } from '../tables.ts';
import type { StageOutcome } from '../schemas.ts';
import type { Context, StageDeps } from './context.ts';

/** The stages, in their order. Contract 4, Stages. */
export type StageName =
  | 'load'
  | 'validate'
  | 'normalize'
  | 'upsert'
  | 'snapshot'
  | 'images'
  | 'enrich'
  | 'embed';

/** The stages that a payload goes through which says nothing new, but has pictures that are not had yet. */
export const PICTURE_STAGES: ReadonlySet<StageName> = new Set(['load', 'images', 'enrich']);

/**
 * How a job ends; `postponed` puts it back, because what it needs is not there at present: the record says why while it
 * waits. It is suspect where that failed while it worked on the job, which may be why.
 */
export type Ending =
  | { status: 'completed'; error: null }
  | { status: 'invalid' | 'failed'; error: RawError }
  | { status: 'postponed'; isSuspect?: boolean; error?: RawError };

/** How a stage ended, and where it ends the whole job, how the job does. */
export type StageResult = {
  outcome: StageOutcome;
  ending?: Ending;
};

/**
 * One stage. It may run twice for the same job without harm, and everything that it writes is
 * conditional on the job's claim.
 * @throws LeaseLostError where the claim is lost, ModelError where the model fails.
 */
export type StageRun = (
  context: Context,
  deps: StageDeps,
  signal: AbortSignal,
) => Promise<StageResult>;

/** A stage in the list of them: how long one try of it may take, and how often it is tried. */
export type Stage = { name: StageName; run: StageRun; timeoutMs: number; attempts: number };
