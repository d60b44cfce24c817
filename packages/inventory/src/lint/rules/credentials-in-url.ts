import { addressOf } from '../address.ts';
import { simpleRule } from '../rule.ts';

/** Finds addresses with a user name or a password. The message never repeats them. */
export const credentialsInUrl = simpleRule('lint/credentials-in-url', 'error', (fields) => {
  const address = addressOf(fields);
  if (address === null || (address.username === '' && address.password === '')) return [];
  const what = address.password === '' ? 'a user name' : 'a password';
  return [
    {
      key: 'url',
      message: `url holds ${what}, which whoever reads the inventory can read; remove it, and change it where it is used`,
    },
  ];
});
