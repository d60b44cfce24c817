import fc from 'fast-check';
import type { StoredFact, StoredSession, StoredSummary } from './store.ts';

// Few times and names, so that they meet often; microseconds that a JavaScript date would lose.
const someTime = fc.constantFrom(null, 1_000_001, 1_000_002, 1_700_000_000_000_000);
const someOwner = fc.constantFrom(null, null, 'u-1', 'u-2');

/** Facts of a user, of another one and of nobody; those of an owner have different names. */
export const someFacts: fc.Arbitrary<StoredFact[]> = fc
  .array(
    fc.record({
      user_id: someOwner,
      category: fc.constantFrom('home', 'дім', null),
      key: fc.constantFrom('rooms', 'Rooms', "o'clock"),
      value: fc.option(
        fc.string({ unit: 'grapheme', maxLength: 5 }).filter((text) => !text.includes('\0')),
      ),
      source_session_id: fc.constantFrom(null, 's-1'),
      created_us: someTime,
      updated_us: someTime,
    }),
    { maxLength: 16 },
  )
  .map((facts) =>
    numbered(facts).filter(
      (one, index, all) => one.user_id === null || index === all.findIndex(hasIdentity(one)),
    ),
  );

/** Summaries, at most one of an owner. */
export const someSummaries: fc.Arbitrary<StoredSummary[]> = fc
  .array(
    fc.record({
      user_id: someOwner,
      summary: fc.constantFrom('Two rooms.', 'Near a park.', 'Has a dog.', null),
      updated_us: someTime,
    }),
    { maxLength: 6 },
  )
  .map((summaries) =>
    numbered(summaries).filter(
      ({ user_id }, index, all) =>
        user_id === null || index === all.findIndex((other) => other.user_id === user_id),
    ),
  );

/** Sessions of a user, of another one and of nobody. */
export const someSessions: fc.Arbitrary<StoredSession[]> = fc
  .array(fc.record({ user_id: someOwner }), { maxLength: 5 })
  .map(numbered);

function numbered<Row>(rows: readonly Row[]): (Row & { id: string })[] {
  return rows.map((row, index) => ({ ...row, id: `id-${String(index).padStart(2, '0')}` }));
}

const hasIdentity =
  (one: Omit<StoredFact, 'id'>) =>
  ({ user_id, category, key }: Omit<StoredFact, 'id'>): boolean =>
    user_id === one.user_id && category === one.category && key === one.key;
