/** One thing to ask a server for, again and again. */
export type Target = {
  path: string;
  headers: Record<string, string>;
  /** Text that the answer must contain. */
  expected: string;
};
