import { requireOutput, type StageRun } from '../context.ts';
import { mergeFields } from '../merge.ts';
import { done } from '../outcome.ts';

/** Merges the fields of the source and of the model. Missing and impossible values are omitted. */
export const normalize: StageRun = async (context) => {
  const [payload, extracted] = [
    requireOutput(context, 'payload'),
    requireOutput(context, 'extracted'),
  ];
  Object.assign(context.outputs, mergeFields(context.job.rawId, payload, extracted));
  return done;
};
