/**
 * Whether jobs may be taken off the queue as far as one thing goes that they need. It is asked before each
 * claim, and again at each poll while it says no.
 */
export type Gate = () => boolean | Promise<boolean>;

/** Whether nothing stands in the way; the first thing that does is enough. */
export async function allOpen(gates: readonly Gate[]): Promise<boolean> {
  for (const gate of gates) if (!(await gate())) return false;
  return true;
}
