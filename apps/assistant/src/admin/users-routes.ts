import { type Server, toPage } from '@oselya/kit';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problemAnswers } from '../errors.ts';
import { readPermissions, readRole } from '../identity/index.ts';
import { okAnswer } from '../schema.ts';
import {
  roleBody,
  signOutAnswer,
  USER_PAGE,
  userCursors,
  userList,
  userParams,
  userQuery,
} from './schemas.ts';
import type { UserAdmin } from './users.ts';

const cursorOf = ({ id }: { id: string }) => userCursors.write(id);

/** `/admin/users`. Specification 000, Admin endpoints; Contract 3, Further endpoints. */
export function userRoutes(app: Server, users: UserAdmin): void {
  const config = { access: { role: 'admin' } } as const;
  const tags = ['admin'];
  const refusals = [...guardRefusals, 'admin_only'] as const;

  app.get(
    '/admin/users',
    {
      config,
      schema: {
        tags,
        summary: 'Everybody who has signed in',
        querystring: userQuery,
        response: { 200: userList, ...problemAnswers(...refusals, 422) },
      },
    },
    async (request, reply) => {
      const { q, limit = USER_PAGE.limit, cursor } = request.query;
      const query = { text: q, afterId: userCursors.read(cursor) };
      const rows = await users.list(signedIn(request).id, query, limit);
      return toPage(rows, { limit, cursorOf, request, reply }).map((row) => ({
        ...row,
        display_name: row.display_name ?? '',
        role: readRole(row.role),
        permissions: readPermissions(row.permissions),
        created_at: row.created_at?.toISOString() ?? null,
        updated_at: row.updated_at?.toISOString() ?? null,
      }));
    },
  );

  app.patch(
    '/admin/users/:user_id/role',
    {
      config,
      schema: {
        tags,
        summary: 'Changes the cached role of a user',
        description:
          'It holds until the user is fetched from the identity provider, which decides, and which is asked at their next request: change roles for good there.',
        params: userParams,
        body: roleBody,
        response: {
          200: okAnswer,
          ...problemAnswers(
            ...refusals,
            'cross_site_request',
            400,
            'user_not_found',
            413,
            415,
            422,
          ),
        },
      },
    },
    async (request) => {
      await users.setRole(signedIn(request).id, {
        userId: request.params.user_id,
        role: request.body.role,
      });
      return { ok: true as const };
    },
  );

  app.post(
    '/admin/users/:user_id/sign-out',
    {
      config: { access: { permission: 'svc.admin.access' } },
      schema: {
        tags,
        summary: 'Ends all sign-ins of a user',
        description:
          'They end at once, on every process. Their tokens are revoked at the identity provider after the answer, a few at a time.',
        params: userParams,
        response: {
          200: signOutAnswer,
          ...problemAnswers(
            ...guardRefusals,
            'permission_missing',
            'cross_site_request',
            'user_not_found',
            422,
          ),
        },
      },
    },
    async (request) => {
      const ended = await users.signOut(signedIn(request).id, request.params.user_id);
      return { ok: true as const, sessions_ended: ended };
    },
  );
}
