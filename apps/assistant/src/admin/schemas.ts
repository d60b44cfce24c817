import { cursors, pageQuery } from '@oselya/kit';
import { Type } from 'typebox';
import { role } from '../access/permissions.ts';
import { userMembers } from '../identity/index.ts';
import { nullable, storableText, timestamp, userId } from '../schema.ts';

/** How many users one page has. */
export const USER_PAGE = { limit: 100, maxLimit: 500 };

/** A page of users ends with an id. */
export const userCursors = cursors(userId);

export const userQuery = Type.Object({
  q: Type.Optional(
    storableText({
      minLength: 1,
      maxLength: 320,
      description: 'Part of the email or the display name, in whatever case.',
    }),
  ),
  ...pageQuery(USER_PAGE),
});

export const userParams = Type.Object({ user_id: userId });

/** Specification 000, Current-user object: what the admin user list adds to it. */
const userItem = Type.Object({
  ...userMembers,
  created_at: nullable(timestamp('Of the first sign-in; null where an older system kept none.')),
  updated_at: nullable(timestamp()),
});

export const userList = Type.Array(userItem, {
  description: 'Users, by id.',
  examples: [
    [
      {
        id: 'u-1',
        email: 'olena@example.test',
        display_name: 'Olena',
        role: 'user',
        permissions: ['svc.sessions.read_own', 'svc.profiles.use'],
        created_at: '2026-03-02T08:15:00.000Z',
        updated_at: '2026-03-04T17:42:00.000Z',
      },
    ],
  ],
});

export const roleBody = Type.Object(
  { role },
  { additionalProperties: false, examples: [{ role: 'admin' }] },
);

export const signOutAnswer = Type.Object(
  { ok: Type.Literal(true), sessions_ended: Type.Integer({ minimum: 0 }) },
  {
    description: 'They are over.',
    examples: [{ ok: true, sessions_ended: 2 }],
  },
);
