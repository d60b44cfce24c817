/** Why a command failed, in one line for the person at the terminal: what is wrong and what to do. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
}
