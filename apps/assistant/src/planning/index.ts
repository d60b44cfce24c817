/** The agent's steps, as everybody else uses them. */

export {
  changedSteps,
  endSteps,
  finishStep,
  listSteps,
  lockChanges,
  type NewStep,
  noteChanges,
  noteUndone,
  startStep,
  type Step,
} from './steps.sql.ts';
