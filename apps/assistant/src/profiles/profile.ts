import { type Static, Type } from 'typebox';

/** What a profile's agent may be given to use. Contract 3, Profiles. */
export const TOOLS = [
  'search_listings',
  'similar_listings',
  'get_listing',
  'remember_fact',
  'forget_fact',
  'lookup_endpoint',
] as const;

const text = (options: { minLength?: number; maxLength: number; description: string }) =>
  Type.String(options);

/** A profile file. Specification 000, Ownership columns; Contract 3, Profiles. */
export const profileSchema = Type.Object(
  {
    profile_id: Type.String({
      pattern: '^[a-z0-9][a-z0-9_-]{0,63}$',
      description: 'must be 1 to 64 lower-case letters, digits, _ and -, the first no _ or -',
    }),
    name: text({ minLength: 1, maxLength: 100, description: 'must be 1 to 100 characters' }),
    description: Type.Optional(
      text({ maxLength: 1000, description: 'must be at most 1,000 characters' }),
    ),
    system: text({
      minLength: 1,
      maxLength: 32_000,
      description: 'must be 1 to 32,000 characters',
    }),
    model: Type.Optional(text({ maxLength: 200, description: 'must be at most 200 characters' })),
    tools: Type.Optional(
      Type.Array(Type.Enum([...TOOLS]), {
        uniqueItems: true,
        description: `must list each tool once, of: ${TOOLS.join(', ')}`,
      }),
    ),
    is_admin_only: Type.Optional(Type.Boolean({ description: 'must be true or false' })),
  },
  { additionalProperties: false },
);

/** An agent that conversations can be held with, what its file leaves out filled in. */
export type Profile = Required<Static<typeof profileSchema>>;
