import { Type } from 'typebox';
import { role } from '../access/permissions.ts';
import { ID_PATTERN } from './ids.ts';

const parameter = (description: string) =>
  Type.Optional(Type.String({ maxLength: 8192, description }));

/** What the provider's redirect carries. RFC 6749 §4.1.2, RFC 9207. */
export const callbackQuery = Type.Object({
  code: parameter('The authorization code.'),
  state: parameter('The state of the pending login.'),
  error: parameter('Why the provider signs nobody in.'),
  iss: parameter('The issuer, where the provider names itself.'),
});

/** What the bridge page is asked for with. */
export const mobileDoneQuery = Type.Object({
  sid: Type.String({ pattern: ID_PATTERN, description: 'The auth session id.' }),
});

/** Who is signed out by a page's form sees the answer, and is led on. No other value may keep anybody in. */
export const logoutQuery = Type.Object({
  from: Type.Optional(Type.Unknown({ description: '`page`: the answer leads to the first page.' })),
});

/** The answer to a sign-out. */
export const logoutAnswer = Type.Object(
  {
    ok: Type.Literal(true),
    logout_url: Type.Optional(
      Type.String({
        description:
          'With IDP_END_SESSION: where a browser goes next, to end its session at the provider too.',
      }),
    ),
  },
  { examples: [{ ok: true }] },
);

/** The members of a user in answers. Specification 000, Current-user object. */
export const userMembers = {
  id: Type.String(),
  email: Type.String(),
  display_name: Type.String({ description: 'Empty where the provider gives no name.' }),
  role,
  permissions: Type.Array(Type.String(), { description: 'Permission slugs.' }),
};

/** Specification 000, Current-user object. */
export const currentUserSchema = Type.Object(userMembers, {
  $id: 'CurrentUser',
  description: 'Who sent the request.',
  examples: [
    {
      id: 'u-1',
      email: 'olena@example.test',
      display_name: 'Olena',
      role: 'user',
      permissions: ['svc.sessions.read_own', 'svc.profiles.use'],
    },
  ],
});

/** The schema of an answer that sends the browser elsewhere. */
export const redirectAnswer = (description: string) =>
  Type.Null({ description, headers: { location: { type: 'string' } } });

/** The schema of an answer that is a page. */
export const pageAnswer = (description: string) => ({
  description,
  content: { 'text/html': { schema: Type.String() } },
});
