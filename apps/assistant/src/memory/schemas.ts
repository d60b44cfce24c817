import { pageQuery } from '@oselya/kit';
import { type Static, Type } from 'typebox';
import { nullable, storableText, timestamp, userId } from '../schema.ts';
import type { Fact } from './repository.ts';
import type { Summary } from './summary-repository.ts';

/** How many items a page has, unless the caller says and at most. */
export const PAGE = { limit: 100, maxLimit: 1000 };

const owner = nullable(
  Type.String({ description: "The owner; null for an older system's, which only admins see." }),
);

const factExample = {
  id: 'b5f7a1de-6f0c-4d44-9d0a-0f6a4a3f2c11',
  user_id: 'u-1',
  category: 'preferences',
  key: 'district',
  value: 'Near the park, not above the third floor',
  source_session_id: null,
  created_at: '2026-03-02T09:15:00.000Z',
  updated_at: '2026-03-04T17:42:10.000Z',
};

/** A fact as it is answered. Contract 3, Answers. */
export const factSchema = Type.Object(
  {
    id: Type.String(),
    user_id: owner,
    category: Type.String(),
    key: Type.String({ description: 'Unique within the category and user.' }),
    value: Type.String(),
    source_session_id: nullable(
      Type.String({ description: 'The conversation that it was learnt in, where it was.' }),
    ),
    created_at: nullable(timestamp("Null where an older system's row does not say.")),
    updated_at: nullable(timestamp()),
  },
  {
    $id: 'MemoryFact',
    examples: [factExample],
  },
);

/** Refers to the schema of a fact, in the schemas of a server that `memoryRoutes` are part of. */
export const factRef = Type.Unsafe<Static<typeof factSchema>>(Type.Ref('MemoryFact'));

/** A fact as the API answers it. */
export function presentFact(fact: Fact): Static<typeof factSchema> {
  return {
    id: fact.id,
    user_id: fact.user_id,
    category: fact.category,
    key: fact.key,
    value: fact.value,
    source_session_id: fact.source_session_id,
    created_at: fact.created_at?.toISOString() ?? null,
    updated_at: fact.updated_at?.toISOString() ?? null,
  };
}

const summaryExample = {
  user_id: 'u-1',
  summary: 'Looks for a flat for four with a balcony; moves in the summer.',
  updated_at: '2026-03-04T17:42:10.000Z',
};

/** A summary as it is answered. */
export const summarySchema = Type.Object(
  {
    user_id: owner,
    summary: Type.String({ description: 'Empty where there is none.' }),
    updated_at: nullable(timestamp()),
  },
  {
    $id: 'MemorySummary',
    examples: [summaryExample],
  },
);

const summaryRef = Type.Unsafe<Static<typeof summarySchema>>(Type.Ref('MemorySummary'));

/** One's own summary, or a page of everybody's. */
export const summaryAnswer = Type.Union([summaryRef, Type.Array(summaryRef)], {
  description: "The caller's own; with `scope=all` an array, the most recently updated first.",
  examples: [summaryExample, [summaryExample]],
});

/** A summary as the API answers it. */
export function presentSummary(summary: Summary): Static<typeof summarySchema> {
  return {
    user_id: summary.user_id,
    summary: summary.summary,
    updated_at: summary.updated_at?.toISOString() ?? null,
  };
}

const scope = Type.Optional(
  Type.Union([Type.Literal('own'), Type.Literal('all')], {
    default: 'own',
    description: '`all` is the memory of all users, and needs `svc.memory.read_all`.',
  }),
);

const filters = {
  // Longer than what is written today: an older system's may be.
  category: Type.Optional(storableText({ maxLength: 1000 })),
  q: Type.Optional(
    storableText({
      maxLength: 100,
      description:
        "Up to five words that all stand in the category, key or value, in any case of letters. A search in everybody's facts that takes longer than 5 s is refused: a category, or at `/admin/memory` a `user_id`, bounds it.",
    }),
  ),
};

/** What a list of facts is asked for with. */
export const factsQuery = Type.Object({ scope, ...filters, ...pageQuery(PAGE) });

/** What the global view is asked for with. */
export const adminFactsQuery = Type.Object({
  user_id: Type.Optional(userId),
  ...filters,
  ...pageQuery(PAGE),
});

/** What summaries are asked for with. */
export const summaryQuery = Type.Object({ scope, ...pageQuery(PAGE) });

/** A list of facts. */
export const factsAnswer = Type.Array(factRef, {
  description: 'The most recently updated first.',
});

/** Specification 000, Admin endpoints. */
export const adminFactsAnswer = Type.Object(
  {
    facts: Type.Array(factRef, { description: 'The most recently updated first.' }),
    count: Type.Integer({ description: 'How many there are on all pages.' }),
  },
  { description: 'A page of the facts.', examples: [{ facts: [factExample], count: 1 }] },
);

const name = (description: string) => storableText({ minLength: 1, maxLength: 100, description });

/** What identifies a fact within a user. Specification 000, Ownership columns. */
export const factParams = Type.Object({
  category: name('Such as `preferences`; up to 100 characters, percent-encoded.'),
  key: name('Such as `district`, within the category.'),
});

/** What a fact is written with. */
export const factBody = Type.Object(
  { value: storableText({ maxLength: 4000 }) },
  {
    additionalProperties: false,
    examples: [{ value: 'Near the park, not above the third floor' }],
  },
);
