import { createCursorCodec, createPageQuery, type Server, paginate } from '@oselya/kit';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Kysely } from 'kysely';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { recordAudit } from '../admin/audit.ts';
import { problem } from '../errors.ts';
import type { Tables } from '../tables.ts';
import type { Profile } from './profile-file.ts';
import type { Profiles } from './profiles.ts';

const PAGE_LIMITS = { limit: 100, maxLimit: 500 };

/** Codec of cursors that contain the number of preceding profiles. */
const offsetCodec = createCursorCodec(
  Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
);

const profileSchema = Type.Object(
  {
    profile_id: Type.String(),
    name: Type.String(),
    description: Type.String(),
    model: Type.String({ description: 'The chat model; empty for the configured one.' }),
    tools: Type.Array(Type.String()),
    is_admin_only: Type.Boolean(),
    fault: Type.Optional(
      Type.String({
        description:
          'The fault of the current file, with its line; only for managers of profiles. The last valid version is used.',
      }),
    ),
  },
  {
    $id: 'Profile',
    examples: [
      {
        profile_id: 'default',
        name: 'Search assistant',
        description: 'Finds flats and houses, and remembers what matters to you.',
        model: '',
        tools: ['search_listings', 'get_listing'],
        is_admin_only: false,
      },
    ],
  },
);

const profilesQuery = Type.Object(createPageQuery(PAGE_LIMITS));
const profilesResponse = Type.Array(
  Type.Unsafe<Static<typeof profileSchema>>(Type.Ref('Profile')),
  {
    description: 'Profiles, in the order of their files.',
  },
);

const availabilityBody = Type.Object(
  { is_admin_only: Type.Boolean() },
  { additionalProperties: false, examples: [{ is_admin_only: true }] },
);

const AVAILABILITY_NOTE = 'Nothing was changed: availability is managed via profile config files.';

const availabilityResponse = Type.Object(
  {
    ok: Type.Literal(true),
    note: Type.String({ description: 'A note that says where to change the availability.' }),
  },
  {
    description: 'Nothing was changed; the note says where to change the availability.',
    examples: [{ ok: true, note: AVAILABILITY_NOTE }],
  },
);

/** Returns a profile without its instructions. Contract 3, Further endpoints. */
function presentProfile(profile: Profile): Static<typeof profileSchema> {
  const { system: _system, ...publicProfile } = profile;
  return publicProfile;
}

/** Registers `/profiles` and `/admin/profiles`. Specification 000, Admin endpoints; Contract 3, Further endpoints. */
export function registerProfileRoutes(
  app: Server,
  { db, profiles }: { db: Kysely<Tables>; profiles: Profiles },
): void {
  app.addSchema(profileSchema);

  app.get(
    '/profiles',
    {
      config: { access: { permission: 'svc.profiles.use' }, errors: [] },
      schema: {
        tags: ['profiles'],
        summary: 'The profiles that the user may choose',
        querystring: profilesQuery,
        response: { 200: profilesResponse },
      },
    },
    (request, reply) =>
      selectPage(profiles.listUsable(getSignedInUser(request)), request, reply).map(presentProfile),
  );

  const access = { permission: 'svc.profiles.manage' } as const;

  app.get(
    '/admin/profiles',
    {
      config: { access, errors: [] },
      schema: {
        tags: ['admin', 'profiles'],
        summary: 'All profiles, including admin-only ones',
        querystring: profilesQuery,
        response: { 200: profilesResponse },
      },
    },
    (request, reply) =>
      selectPage(profiles.listAll(), request, reply).map((profile) => {
        const fault = profiles.findViolation(profile.profile_id);
        return { ...presentProfile(profile), ...(fault !== undefined && { fault }) };
      }),
  );

  app.patch(
    '/admin/profiles/:profile_id/availability',
    {
      config: { access, errors: ['profile_not_found'] },
      schema: {
        tags: ['admin', 'profiles'],
        summary: 'Says where the availability of a profile is managed; changes nothing',
        params: Type.Object({
          profile_id: Type.String({
            minLength: 1,
            maxLength: 300,
            description: "The profile's ID.",
          }),
        }),
        body: availabilityBody,
        response: { 200: availabilityResponse },
      },
    },
    async (request) => {
      const profile = profiles.find(request.params.profile_id);
      if (profile === undefined) throw problem('profile_not_found');
      const { profile_id, is_admin_only } = profile;
      await recordAudit(db, {
        action: 'profile_availability_asked',
        actorId: getSignedInUser(request).id,
        userId: null,
        details: { profile_id, is_admin_only: request.body.is_admin_only },
      });
      return {
        ok: true as const,
        note: `${AVAILABILITY_NOTE} The file of ${profile_id} says is_admin_only: ${is_admin_only}; a change of the file applies within seconds.`,
      };
    },
  );
}

function selectPage(
  allProfiles: readonly Profile[],
  request: FastifyRequest<{ Querystring: Static<typeof profilesQuery> }>,
  reply: FastifyReply,
) {
  const { limit = PAGE_LIMITS.limit, cursor } = request.query;
  const offset = offsetCodec.read(cursor) ?? 0;
  const encodeCursor = () => offsetCodec.write(offset + limit);
  return paginate(allProfiles.slice(offset, offset + limit + 1), {
    limit,
    getCursor: encodeCursor,
    request,
    reply,
  });
}
