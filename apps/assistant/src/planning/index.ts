/** The agent's steps, as everybody else uses them. */

export {
  finishStep,
  listSteps,
  lockChanges,
  type NewStep,
  noteUndone,
  startStep,
  type Step,
} from './steps.sql.ts';
