/**
 * A reason why the platform cannot start that the person at the terminal can mend. Its message is
 * meant for them: it says what is wrong and what to do, and needs no stack trace.
 */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
