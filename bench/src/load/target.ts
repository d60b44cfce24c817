/** One thing to ask a server for, again and again. */
export type Target = {
  path: string;
  headers: Record<string, string>;
  /** What the answer has to contain. */
  expected: string;
};
