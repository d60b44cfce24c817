import { serveMethods } from '../../src/process/child.ts';

/** Methods of a test process that responds, fails, exits or waits on request. */
const methods = {
  double: (value: number) => 2 * value,
  environment: () => process.env['NODE_ENV'],
  fail: (text: string): never => {
    throw new Error(text);
  },
  exit: (status: number): never => process.exit(status),
  wait: () => new Promise<never>(() => undefined),
};
export type TestProcess = typeof methods;
serveMethods(methods);
