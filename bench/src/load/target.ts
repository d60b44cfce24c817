/** Request that the load generator repeats. */
export type Target = {
  path: string;
  headers: Record<string, string>;
  /** Text that the answer must contain. */
  expected: string;
};
