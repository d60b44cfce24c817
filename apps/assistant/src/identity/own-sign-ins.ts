import { createCursorCodec, createPageQuery, paginate, type Server } from '@oselya/kit';
import { sql } from 'kysely';
import { Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { problem } from '../errors.ts';
import { nullable, okResponse, storableText, timestamp } from '../schema.ts';
import { publicSessionId, whereAuthSessionActive } from './auth-sessions.ts';
import type { SignInDeps } from './routes.ts';

const PAGE_LIMITS = { limit: 50, maxLimit: 200 };

const createdAtMicros = sql<number>`(extract(epoch from s.created_at) * 1000000)::bigint`;

const publicIdSchema = Type.String({
  pattern: '^[0-9a-f]{16}$',
  description: 'The ID of the sign-in, which is not the value of the cookie.',
});

const signInCursorCodec = createCursorCodec(
  Type.Object({
    createdAtMicros: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    id: publicIdSchema,
  }),
);

const signInSchema = Type.Object({
  id: publicIdSchema,
  created_at: timestamp(),
  last_used_at: timestamp('The time of the last use, to the minute.'),
  current: Type.Boolean({ description: 'Whether this request was sent with this sign-in.' }),
  user_agent: nullable(Type.String({ description: 'The user agent that the browser sent.' })),
  address: nullable(Type.String({ description: 'The address from which the sign-in began.' })),
});

const signInExample = {
  id: '3f0a91c26d5be847',
  created_at: '2026-03-02T08:15:00.000Z',
  last_used_at: '2026-03-04T17:42:00.000Z',
  current: true,
  user_agent: 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0',
  address: '192.0.2.17',
};

/** Registers `GET /auth/sessions` and `DELETE /auth/sessions/{id}`. Contract 3, Further endpoints. */
export function registerOwnSignInRoutes(
  app: Server,
  { config, db, identity: { cookies, signOut } }: SignInDeps,
): void {
  app.get(
    '/auth/sessions',
    {
      config: { access: 'signed-in', errors: [] },
      schema: {
        tags: ['sign-in'],
        summary: 'Lists the sign-ins of the user',
        querystring: Type.Object(createPageQuery(PAGE_LIMITS)),
        response: {
          200: Type.Array(signInSchema, {
            description: 'The current sign-ins of the user, newest first.',
            examples: [[signInExample]],
          }),
        },
      },
    },
    async (request, reply) => {
      const { limit = PAGE_LIMITS.limit, cursor } = request.query;
      let query = db
        .selectFrom('user_auth_sessions as s')
        .where('s.user_id', '=', getSignedInUser(request).id)
        .where(whereAuthSessionActive(config))
        .select([
          publicSessionId.as('id'),
          's.created_at',
          sql<Date>`coalesce(s.last_used_at, s.created_at)`.as('last_used_at'),
          sql<boolean>`coalesce(s.id = ${cookies.sessionId(request)}, false)`.as('current'),
          's.user_agent',
          's.address',
          createdAtMicros.as('createdAtMicros'),
        ])
        .orderBy(createdAtMicros, 'desc')
        .orderBy(publicSessionId, 'desc')
        .limit(limit + 1);
      const lastPosition = signInCursorCodec.read(cursor);
      if (lastPosition !== undefined) {
        query = query.where(
          sql<boolean>`(${createdAtMicros}, ${publicSessionId}) < (${lastPosition.createdAtMicros}, ${lastPosition.id})`,
        );
      }
      const rows = await query.execute();
      const page = paginate(rows, { limit, getCursor: signInCursorCodec.write, request, reply });
      return page.map(({ createdAtMicros: _micros, ...row }) => ({
        ...row,
        created_at: row.created_at.toISOString(),
        last_used_at: row.last_used_at.toISOString(),
      }));
    },
  );

  app.delete(
    '/auth/sessions/:id',
    {
      config: { access: 'signed-in', errors: ['sign_in_not_found'] },
      schema: {
        tags: ['sign-in'],
        summary: 'Ends a sign-in of the user; ending the current one signs out',
        params: Type.Object({
          id: storableText({ maxLength: 300, description: 'The `id` of a sign-in.' }),
        }),
        response: { 200: okResponse },
      },
    },
    async (request, reply) => {
      const endedSession = await signOut.endOwnSession(
        getSignedInUser(request).id,
        request.params.id,
      );
      if (endedSession === undefined) throw problem('sign_in_not_found');
      if (endedSession.id === cookies.sessionId(request)) cookies.clearSession(reply);
      return { ok: true as const };
    },
  );
}
