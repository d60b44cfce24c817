import type { Browser, TestAssistant } from './assistant.ts';
import type { Permission, User } from '../../src/access/permissions.ts';
import type { Server } from '@oselya/kit';

/** Creates user data as the provider returns it. */
export function createPerson(
  id: string,
  { isAdmin = false, permissions = [] }: { isAdmin?: boolean; permissions?: Permission[] } = {},
) {
  return {
    sub: id,
    email: `${id}@example.test`,
    profile: { display_name: id },
    client_access_list: [
      {
        client_id: 'oselya',
        role_ids: [isAdmin ? 'svc_admin' : 'svc_user'],
        permission_ids: permissions,
      },
    ],
  };
}

/** Creates a user of the assistant with the role `user`. */
export const createUser = (id: string, permissions: Permission[] = []): User => ({
  id,
  email: `${id}@example.test`,
  display_name: null,
  role: 'user',
  permissions,
});

/**
 * Settings for several signed-in users. User data stays cached for an hour, because the scripted provider has only one
 * user. On a busy machine, a sign-in may take longer than the default timeout.
 */
export const SEVERAL_PEOPLE = { IDP_USER_MAX_AGE_SECONDS: '3600', IDP_TIMEOUT_MS: '60000' };

/** Signs in an owner and a stranger without permissions, a holder of `permissions`, and an admin. */
export async function signInUsers(
  { signInUser }: Pick<TestAssistant, 'signInUser'>,
  app: Server,
  permissions: Permission[],
) {
  return {
    owner: await signInUser(app, createPerson('u-owner')),
    stranger: await signInUser(app, createPerson('u-stranger')),
    holder: await signInUser(app, createPerson('u-holder', { permissions })),
    admin: await signInUser(app, createPerson('u-admin', { isAdmin: true })),
  };
}

/** Returns the URL of the next page of a list. */
export const getNextUrl = ({ headers }: { headers: { link?: unknown } }) =>
  /^<(.*)>; rel="next"$/.exec(String(headers.link))?.[1];

/** Requests all pages of a list by following their links. */
export async function pages(browser: Browser, first: string) {
  const responses = [];
  let url: string | undefined = first;
  while (url !== undefined) {
    if (responses.length === 20) throw new Error(`The pages of ${first} do not end`);
    const response = await browser.get(url);
    responses.push(response);
    url = getNextUrl(response);
  }
  return responses;
}
