import { pageQuery } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { nullable, storableText, timestamp } from '../schema.ts';
import type { SavedSearch } from './repository.ts';
import { searchSchema } from './search.ts';

/** How many saved searches a page has, unless the caller says and at most. */
export const PAGE = { limit: 20, maxLimit: 100 };

/** How seldom digests come, in minutes: at least, unless the user says, and at most (a week). */
const EVERY_MINUTES = { minimum: 5, default: 60, maximum: 10_080 };

const id = { minLength: 1, maxLength: 300 };

/** A path that names a saved search. */
export const savedSearchParams = Type.Object({
  id: storableText({ ...id, description: "The saved search's id." }),
});

const example = {
  id: '5f7c1f0e-4a3c-4a57-9a0e-6d0f6b1d3c22',
  name: 'Двокімнатні біля парку',
  search: { query: 'парк', city: 'Львів', rooms_min: 2, rooms_max: 2, price_max: 15_000 },
  session_id: '0d2b7a3e-5a5c-4a8e-9a55-3f1f2f6f7c10',
  every_minutes: 60,
  paused: false,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-02T09:15:00.000Z',
  told_at: '2026-03-04T17:42:10.000Z',
};

const name = storableText({ minLength: 1, maxLength: 100 });
const everyMinutes = {
  minimum: EVERY_MINUTES.minimum,
  maximum: EVERY_MINUTES.maximum,
  description: 'Digests come at most once in so many minutes.',
};

/** A saved search as the API answers it. */
export const savedSearchSchema = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    search: searchSchema,
    session_id: nullable(
      Type.String({
        description:
          'The session that it reports to. Null once that was deleted, which pauses the search.',
      }),
    ),
    every_minutes: Type.Integer(),
    paused: Type.Boolean({ description: 'A paused search finds nothing meanwhile.' }),
    created_at: timestamp(),
    updated_at: timestamp(),
    told_at: nullable(timestamp('When the last digest came; null before the first one.')),
  },
  { $id: 'SavedSearch', examples: [example] },
);

/** Refers to the schema of a saved search. */
export const savedSearchRef = Type.Unsafe<Static<typeof savedSearchSchema>>(
  Type.Ref('SavedSearch'),
);

/** A page of saved searches. */
export const savedSearchesAnswer = Type.Array(savedSearchRef, {
  description: 'The newest first.',
  examples: [[example]],
});

/** What a list is asked for with. */
export const savedSearchesQuery = Type.Object(pageQuery(PAGE));

const exampleBody = {
  name: example.name,
  search: example.search,
  every_minutes: example.every_minutes,
};

/** What is to be kept. */
export const savedSearchBody = Type.Object(
  {
    name,
    search: searchSchema,
    session_id: Type.Optional(
      storableText({
        ...id,
        description: "One of one's own; without it one is made, of the search's name.",
      }),
    ),
    every_minutes: Type.Optional(Type.Integer({ ...everyMinutes, default: EVERY_MINUTES.default })),
    paused: Type.Optional(Type.Boolean({ default: false })),
  },
  { additionalProperties: false, examples: [exampleBody] },
);

/** What of a saved search can be changed. */
export const savedSearchChanges = Type.Object(
  {
    name: Type.Optional(name),
    search: Type.Optional({
      ...searchSchema,
      description:
        'In the place of all that was there. What was found before and is not told yet is told where this finds it too.',
    }),
    session_id: Type.Optional(storableText({ ...id, description: 'One of its owner.' })),
    every_minutes: Type.Optional(Type.Integer(everyMinutes)),
    paused: Type.Optional(
      Type.Boolean({
        description: 'With false a search whose session was deleted gets a new one.',
      }),
    ),
  },
  { additionalProperties: false, minProperties: 1, examples: [{ paused: true }] },
);

/** What is to be kept, or changed. */
export type SavedSearchBody = Static<typeof savedSearchBody>;
export type SavedSearchChanges = Static<typeof savedSearchChanges>;

/** The interval of a search that names none, in minutes. */
export const DEFAULT_EVERY_MINUTES = EVERY_MINUTES.default;

/** A saved search as the API answers it. */
export function presentSavedSearch(saved: SavedSearch): Static<typeof savedSearchSchema> {
  return {
    id: saved.id,
    name: saved.name,
    search: saved.search,
    session_id: saved.session_id,
    every_minutes: saved.every_minutes,
    paused: saved.paused || saved.session_id === null,
    created_at: saved.created_at.toISOString(),
    updated_at: saved.updated_at.toISOString(),
    told_at: saved.told_at?.toISOString() ?? null,
  };
}
