import { simpleRule } from '../rule.ts';

const NOTHING = /^(none|no|nothing|n\/a|-|off|disabled)?\.?$/i;

/** Finds public endpoints that name no authentication. */
export const publicWithoutAuth = simpleRule(
  'lint/public-without-auth',
  'error',
  ({ exposure, auth }) => {
    if (exposure !== 'public' || !NOTHING.test(auth?.trim() ?? '')) return [];
    const found = auth === undefined ? 'it has no auth' : `its auth is ${JSON.stringify(auth)}`;
    return [
      {
        key: auth === undefined ? 'exposure' : 'auth',
        message: `the endpoint is public, but ${found}; say in auth who may use it and how, even if anybody may`,
      },
    ];
  },
);
