import { credentialIn } from '../../credentials.ts';
import { simpleRule } from '../rule.ts';

/** Finds addresses with a user name, a password, or a secret in their query. The message never repeats them. */
export const credentialsInUrl = simpleRule('lint/credentials-in-url', 'error', (fields) => {
  const what = credentialIn(fields.url ?? '');
  if (what === null) return [];
  return [
    {
      key: 'url',
      message: `url holds ${what}, which whoever reads the inventory can read; remove it, and change it where it is used`,
    },
  ];
});
