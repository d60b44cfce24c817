import { serveMethods } from '../../src/process/child.ts';

/** A process for the tests: it answers, fails, ends and waits on request. */
const methods = {
  double: (value: number) => 2 * value,
  environment: () => process.env['NODE_ENV'],
  fail: (text: string): never => {
    throw new Error(text);
  },
  end: (status: number): never => process.exit(status),
  wait: () => new Promise<never>(() => undefined),
};
export type Answering = typeof methods;
serveMethods(methods);
