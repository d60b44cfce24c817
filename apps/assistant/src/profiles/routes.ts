import { cursors, type Server, toPage } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Kysely } from 'kysely';
import { type Static, Type } from 'typebox';
import { guardRefusals, signedIn } from '../access/guards.ts';
import { recordAudit } from '../admin/audit.ts';
import { problem, problemAnswers } from '../errors.ts';
import type { Tables } from '../tables.ts';
import type { Profile } from './profile.ts';
import type { Profiles } from './profiles.ts';
import {
  availability,
  availabilityAnswer,
  presentProfile,
  profileItem,
  profileParams,
  PROFILES_PAGE,
  profilesAnswer,
  profilesQuery,
} from './schemas.ts';

const refusals = [...guardRefusals, 'permission_missing'] as const;

/** Where a page ended: how many profiles are on the pages up to it. */
const positions = cursors(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));

/**
 * `GET /profiles`, and what admins see of profiles and may ask for. Specification 000, Admin endpoints;
 * Contract 3, Answers.
 */
export function profileRoutes(
  app: Server,
  { db, profiles }: { db: Kysely<Tables>; profiles: Profiles },
): void {
  app.addSchema(profileItem);

  app.get(
    '/profiles',
    {
      config: { access: { permission: 'svc.profiles.use' } },
      schema: {
        tags: ['profiles'],
        summary: 'The profiles that the user may choose',
        querystring: profilesQuery,
        response: { 200: profilesAnswer, ...problemAnswers(...refusals, 422) },
      },
    },
    (request, reply) =>
      pageOf(profiles.usable(signedIn(request)), request, reply).map(presentProfile),
  );

  const config = { access: { permission: 'svc.profiles.manage' } } as const;

  app.get(
    '/admin/profiles',
    {
      config,
      schema: {
        tags: ['admin', 'profiles'],
        summary: 'All profiles, those for admins only too',
        querystring: profilesQuery,
        response: { 200: profilesAnswer, ...problemAnswers(...refusals, 422) },
      },
    },
    (request, reply) =>
      pageOf(profiles.all(), request, reply).map((profile) => {
        const fault = profiles.faultOf(profile.profile_id);
        return { ...presentProfile(profile), ...(fault !== undefined && { fault }) };
      }),
  );

  app.patch(
    '/admin/profiles/:profile_id/availability',
    {
      config,
      schema: {
        tags: ['admin', 'profiles'],
        summary: 'Says where the availability of a profile is managed; it changes nothing',
        params: profileParams,
        body: availability,
        response: {
          200: availabilityAnswer,
          ...problemAnswers(
            400,
            ...refusals,
            'cross_site_request',
            'profile_not_found',
            413,
            415,
            422,
          ),
        },
      },
    },
    async (request) => {
      const { is_admin_only: asked } = request.body;
      const profile = profiles.find(request.params.profile_id);
      if (profile === undefined) throw problem('profile_not_found');
      const { profile_id, is_admin_only } = profile;
      await recordAudit(db, {
        action: 'profile_availability_asked',
        actorId: signedIn(request).id,
        userId: null,
        details: { profile_id, is_admin_only: asked },
      });
      return {
        ok: true as const,
        note: `Nothing was changed: availability is managed via profile config files. The file of ${profile_id} says is_admin_only: ${is_admin_only}; change it there, and it holds within seconds.`,
      };
    },
  );
}

/** The page of a list that is asked for. */
function pageOf(
  list: readonly Profile[],
  request: FastifyRequest<{ Querystring: Static<typeof profilesQuery> }>,
  reply: FastifyReply,
) {
  const { limit = PROFILES_PAGE.limit, cursor } = request.query;
  const start = positions.read(cursor) ?? 0;
  const cursorOf = () => positions.write(start + limit);
  const rows = list.slice(start, start + limit + 1);
  return toPage(rows, { limit, cursorOf, request, reply });
}
