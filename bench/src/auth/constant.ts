import type { Variant } from '../load/variant.ts';
import { startPeer } from './peer.ts';
import type { ConstantSettings } from './servers/constant.ts';
import { createUser } from './users.ts';

/** Fastify with a constant answer after one select by a primary key: the upper bound of speed. */
export const constant: Variant = {
  name: 'constant after one select',
  start: ({ databaseUrl, users, signal }) =>
    startPeer(
      { file: 'constant.ts', settings: { databaseUrl, users } satisfies ConstantSettings, signal },
      () => {
        const targets = Array.from({ length: users }, (_, index) => ({
          path: `/users/${createUser(index).id}`,
          headers: {},
          expected: createUser(0).email,
        }));
        return Promise.resolve(() => Promise.resolve(targets));
      },
    ),
};
