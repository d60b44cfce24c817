import type { TestAssistant } from './assistant.ts';
import type { Permission, User } from '../../src/access/permissions.ts';
import type { Server } from '@oselya/kit';

/** A user as the provider describes them. */
export function person(
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

/** A user as the service knows them, for what asks for one and no request. */
export const userOf = (id: string, permissions: Permission[] = []): User => ({
  id,
  email: `${id}@example.test`,
  display_name: null,
  role: 'user',
  permissions,
});

/** For an instance that knows several people at once: whoever signed in stays who they were. */
export const SEVERAL_PEOPLE = { IDP_USER_MAX_AGE_SECONDS: '3600' };

/**
 * Signs in the people that ownership is about: an owner and a stranger without any permission, somebody
 * with the permissions for others' data, and an admin.
 */
export async function signInEverybody(
  { signedIn }: Pick<TestAssistant, 'signedIn'>,
  app: Server,
  permissions: Permission[],
) {
  return {
    owner: await signedIn(app, person('u-owner')),
    stranger: await signedIn(app, person('u-stranger')),
    holder: await signedIn(app, person('u-holder', { permissions })),
    admin: await signedIn(app, person('u-admin', { isAdmin: true })),
  };
}
