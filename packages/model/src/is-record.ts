/** Whether a value of a server's JSON has members to look for: an object, or an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
