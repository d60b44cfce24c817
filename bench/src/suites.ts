import type { Suite } from './suite.ts';

/** Every suite by its name. What one needs is loaded when it runs, so that the list loads no peer. */
export const suites: ReadonlyMap<string, Suite> = new Map([
  [
    'auth',
    {
      summary: 'requests of signed-in users: the assistant, better-auth and @fastify/session',
      run: async (context) => (await import('./auth/auth.ts')).measureAuth(context),
    },
  ],
]);
