import type { Server } from '@oselya/kit';
import { type Kysely, sql } from 'kysely';
import { type Static, Type } from 'typebox';
import { getSignedInUser } from '../access/guards.ts';
import { searchFilters } from '../collector/generated/openapi.ts';
import { nullable } from '../schema.ts';
import type { Tables } from '../tables.ts';

const settingsProperties = {
  language: nullable(
    Type.Enum(['uk', 'ru', 'en'], { description: 'Null if the browser decides, as at first.' }),
  ),
  theme: Type.Enum(['light', 'dark', 'auto'], { description: '`auto` at first.' }),
  single_letter_keys: Type.Boolean({
    description: 'Whether single letters are keyboard shortcuts, as at first.',
  }),
  currency: nullable(
    Type.String({
      pattern: searchFilters.currency.pattern,
      description:
        'ISO 4217 code of the currency of shown prices. Null if they keep their own, as at first.',
    }),
  ),
};

const settingsSchema = Type.Object(settingsProperties, {
  $id: 'Settings',
  examples: [{ language: 'uk', theme: 'auto', single_letter_keys: true, currency: 'USD' }],
});

type Settings = Static<typeof settingsSchema>;

const DEFAULT_SETTINGS: Settings = {
  language: null,
  theme: 'auto',
  single_letter_keys: true,
  currency: null,
};

const COLUMNS = ['language', 'theme', 'single_letter_keys', 'currency'] as const;

/** Returns the settings of a user, with defaults for a user who has changed none. */
export async function findSettings(db: Kysely<Tables>, userId: string): Promise<Settings> {
  const row = await db
    .selectFrom('user_settings')
    .select(COLUMNS)
    .where('user_id', '=', userId)
    .executeTakeFirst();
  return row ?? DEFAULT_SETTINGS;
}

/** Deletes the settings of a user, and returns the number of deleted rows: 0 or 1. */
export async function deleteSettings(db: Kysely<Tables>, userId: string): Promise<number> {
  const { numDeletedRows } = await db
    .deleteFrom('user_settings')
    .where('user_id', '=', userId)
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** Registers `GET` and `PATCH /me/settings`. Contract 6. */
export function registerSettingsRoutes(app: Server, db: Kysely<Tables>): void {
  app.addSchema(settingsSchema);
  const settingsRef = Type.Unsafe<Settings>(Type.Ref('Settings'));
  const config = { access: 'signed-in', errors: ['unavailable'] } as const;
  const response = { 200: { ...settingsRef, description: 'The settings of the user.' } };

  app.get(
    '/me/settings',
    { config, schema: { tags: ['settings'], summary: 'The settings of the user', response } },
    (request) => findSettings(db, getSignedInUser(request).id),
  );

  app.patch(
    '/me/settings',
    {
      config,
      schema: {
        tags: ['settings'],
        summary: 'Changes settings of the user',
        body: Type.Partial(Type.Object(settingsProperties), {
          additionalProperties: false,
          minProperties: 1,
          examples: [{ theme: 'dark', language: null }],
        }),
        response,
      },
    },
    async (request) =>
      db
        .insertInto('user_settings')
        .values({ user_id: getSignedInUser(request).id, ...request.body })
        .onConflict((conflict) =>
          conflict.column('user_id').doUpdateSet({ ...request.body, updated_at: sql`now()` }),
        )
        .returning(COLUMNS)
        .executeTakeFirstOrThrow(),
  );
}
