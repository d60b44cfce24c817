import { pageQuery } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import type { Profile } from './profile.ts';

/** How many profiles a page has, unless the caller says and at most. */
export const PROFILES_PAGE = { limit: 100, maxLimit: 500 };

const example = {
  profile_id: 'default',
  name: 'Search assistant',
  description: 'Finds flats and houses, and remembers what matters to you.',
  model: '',
  tools: ['search_listings', 'get_listing'],
  is_admin_only: false,
};

/** A profile as it is answered: without its instructions. Contract 3, Answers. */
export const profileItem = Type.Object(
  {
    profile_id: Type.String(),
    name: Type.String(),
    description: Type.String(),
    model: Type.String({ description: 'Empty for the chat model of the configuration.' }),
    tools: Type.Array(Type.String()),
    is_admin_only: Type.Boolean(),
    fault: Type.Optional(
      Type.String({
        description:
          'For those who manage profiles: what is wrong with the file now, with its line. The profile is used as it was before.',
      }),
    ),
  },
  {
    $id: 'Profile',
    examples: [example],
  },
);

const profileRef = Type.Unsafe<Static<typeof profileItem>>(Type.Ref('Profile'));

/** What a list of profiles is asked for with. */
export const profilesQuery = Type.Object(pageQuery(PROFILES_PAGE));

/** A page of profiles. */
export const profilesAnswer = Type.Array(profileRef, {
  description: 'In the order of their files.',
});

/** A profile as the API answers it. */
export function presentProfile(profile: Profile): Static<typeof profileItem> {
  return {
    profile_id: profile.profile_id,
    name: profile.name,
    description: profile.description,
    model: profile.model,
    tools: profile.tools,
    is_admin_only: profile.is_admin_only,
  };
}

/** A path that names a profile. */
export const profileParams = Type.Object({
  profile_id: Type.String({ minLength: 1, maxLength: 300, description: "The profile's id." }),
});

/** What an admin may ask of a profile. Specification 000, Admin endpoints. */
export const availability = Type.Object(
  { is_admin_only: Type.Boolean() },
  { additionalProperties: false, examples: [{ is_admin_only: true }] },
);

/** Specification 000, Admin endpoints. */
export const availabilityAnswer = Type.Object(
  { ok: Type.Literal(true), note: Type.String({ description: 'Where it is changed.' }) },
  {
    description: 'Nothing was changed; the note says where to do it.',
    examples: [
      {
        ok: true,
        note: 'Nothing was changed: availability is managed via profile config files.',
      },
    ],
  },
);
