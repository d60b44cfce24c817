import { cursors, pageQuery, type Server, toPage } from '@oselya/kit';
import { Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { problem, problemAnswers } from '../errors.ts';
import { nullable, okAnswer, storableText, timestamp } from '../schema.ts';
import type { Identity } from './identity.ts';
import type { OwnSignIn } from './own-sign-ins-repository.ts';

const PAGE = { limit: 50, maxLimit: 200 };

const publicId = Type.String({
  pattern: '^[0-9a-f]{16}$',
  description: 'Names the sign-in; it is not the value of the cookie.',
});

/** What is no such name names no sign-in. */
const signInName = storableText({ maxLength: 300, description: 'The `id` of a sign-in.' });

const position = cursors(
  Type.Object({
    createdAtMicros: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    id: publicId,
  }),
);

const signInItem = Type.Object({
  id: publicId,
  created_at: timestamp(),
  last_used_at: timestamp('To the minute.'),
  current: Type.Boolean({ description: 'Whether this request was sent with it.' }),
  user_agent: nullable(Type.String({ description: 'The browser, as it names itself.' })),
  address: nullable(Type.String({ description: 'The address that it began from.' })),
});

const signInList = Type.Array(signInItem, {
  description: 'The living sign-ins of the user, newest first.',
  examples: [
    [
      {
        id: '3f0a91c26d5be847',
        created_at: '2026-03-02T08:15:00.000Z',
        last_used_at: '2026-03-04T17:42:00.000Z',
        current: true,
        user_agent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
        address: '192.0.2.17',
      },
    ],
  ],
});

/** `GET /auth/sessions` and `DELETE /auth/sessions/{id}`. Contract 3, Further endpoints. */
export function ownSignInRoutes(
  app: Server,
  { cookies, ownSignIns }: Pick<Identity, 'cookies' | 'ownSignIns'>,
): void {
  const config = { access: 'signed-in' } as const;
  const tags = ['sign-in'];

  app.get(
    '/auth/sessions',
    {
      config,
      schema: {
        tags,
        summary: 'Where the user is signed in',
        querystring: Type.Object(pageQuery(PAGE)),
        response: { 200: signInList, ...problemAnswers(...guardRefusals, 422) },
      },
    },
    async (request, reply) => {
      const { limit = PAGE.limit, cursor } = request.query;
      const rows = await ownSignIns.list(signedIn(request).id, {
        currentId: cookies.sessionId(request),
        limit,
        after: position.read(cursor),
      });
      const cursorOf = ({ createdAtMicros, id }: OwnSignIn) =>
        position.write({ createdAtMicros, id });
      return toPage(rows, { limit, cursorOf, request, reply }).map(toItem);
    },
  );

  app.delete(
    '/auth/sessions/:id',
    {
      config,
      schema: {
        tags,
        summary: 'Ends a sign-in of the user; ending the current one signs out',
        params: Type.Object({ id: signInName }),
        response: {
          200: okAnswer,
          ...problemAnswers(...guardRefusals, 'cross_site_request', 'sign_in_not_found', 422),
        },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const currentId = cookies.sessionId(request);
      const ended = await ownSignIns.end(signedIn(request).id, { id, currentId });
      if (ended === undefined) throw problem('sign_in_not_found');
      if (ended === 'current') cookies.clearSession(reply);
      return { ok: true as const };
    },
  );
}

function toItem(signIn: OwnSignIn) {
  return {
    id: signIn.id,
    created_at: signIn.createdAt.toISOString(),
    last_used_at: signIn.lastUsedAt.toISOString(),
    current: signIn.isCurrent,
    user_agent: signIn.userAgent,
    address: signIn.address,
  };
}
