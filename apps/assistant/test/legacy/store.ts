import { fileURLToPath } from 'node:url';
import { openTestDatabase } from '@oselya/db/testing';
import fc from 'fast-check';
import { type RawBuilder, sql } from 'kysely';
import type { Tables } from '../../src/tables.ts';

/** A fact with its times in microseconds since 1970, to compare it exactly. */
export type StoredFact = {
  id: string;
  user_id: string | null;
  category: string | null;
  key: string;
  value: string | null;
  source_session_id: string | null;
  created_us: number | null;
  updated_us: number | null;
};

export type StoredSummary = {
  id: string;
  user_id: string | null;
  summary: string | null;
  updated_us: number | null;
};

export type StoredSession = { id: string; user_id: string | null };

/** A database with the users `u-1` and `u-2`, and all that adoption touches, to fill and to read. */
export async function openStore() {
  const folder = fileURLToPath(new URL('../../migrations', import.meta.url));
  const database = await openTestDatabase<Tables>([{ component: 'assistant', folder }]);
  const { db } = database;
  await db
    .insertInto('svc_users')
    .values(['u-1', 'u-2'].map((id) => ({ id, email: `${id}@example.test`, display_name: null })))
    .execute();

  return {
    ...database,
    /** Empties the tables, and fills them with these rows. */
    async reset({
      facts = [],
      summaries = [],
      sessions = [],
    }: {
      facts?: readonly StoredFact[];
      summaries?: readonly StoredSummary[];
      sessions?: readonly StoredSession[];
    }): Promise<void> {
      await sql`truncate memory_facts, memory_summaries, audit_log, conversation_sessions cascade`.execute(
        db,
      );
      if (facts.length > 0) {
        await sql`
          insert into memory_facts
            (id, user_id, category, key, value, source_session_id, created_at, updated_at)
          values ${sql.join(facts.map(factRow))}`.execute(db);
      }
      if (summaries.length > 0) {
        await sql`
          insert into memory_summaries (id, user_id, summary, updated_at)
          values ${sql.join(summaries.map(summaryRow))}`.execute(db);
      }
      if (sessions.length > 0) {
        const rows = sessions.map((one) => ({ ...one, profile_id: null, name: null }));
        await db.insertInto('conversation_sessions').values(rows).execute();
      }
    },
    /** All facts by their ids. */
    facts: async (): Promise<StoredFact[]> =>
      (
        await sql<StoredFact>`
          select id, user_id, category, key, value, source_session_id,
            ${microseconds('created_at')} as created_us, ${microseconds('updated_at')} as updated_us
          from memory_facts order by id`.execute(db)
      ).rows,
    /** All summaries by their ids. */
    summaries: async (): Promise<StoredSummary[]> =>
      (
        await sql<StoredSummary>`
          select id, user_id, summary, ${microseconds('updated_at')} as updated_us
          from memory_summaries order by id`.execute(db)
      ).rows,
    /** Every row of every table that adoption may touch, as PostgreSQL writes it. */
    everything: async (): Promise<string[]> => {
      const tables = [
        'memory_facts',
        'memory_summaries',
        'conversation_sessions',
        'conversation_messages',
        'session_files',
        'audit_log',
        'svc_users',
      ];
      const parts = tables.map(
        (name) => sql`select ${name} || t::text as row from ${sql.table(name)} as t`,
      );
      const { rows } = await sql<{ row: string }>`
        ${sql.join(parts, sql` union all `)} order by 1`.execute(db);
      return rows.map(({ row }) => row);
    },
  };
}

const time = (us: number | null): RawBuilder<unknown> =>
  sql`'epoch'::timestamptz + ${us}::bigint * interval '1 microsecond'`;

const microseconds = (column: string): RawBuilder<unknown> =>
  sql`(extract(epoch from ${sql.ref(column)}) * 1000000)::bigint`;

const factRow = (fact: StoredFact): RawBuilder<unknown> => sql`(
  ${fact.id}, ${fact.user_id}, ${fact.category}, ${fact.key}, ${fact.value},
  ${fact.source_session_id}, ${time(fact.created_us)}, ${time(fact.updated_us)})`;

const summaryRow = ({ id, user_id, summary, updated_us }: StoredSummary): RawBuilder<unknown> =>
  sql`(${id}, ${user_id}, ${summary}, ${time(updated_us)})`;

/** What adoption comes to, told without SQL. Specification 000, Legacy data. */
export function adoptFacts(facts: readonly StoredFact[], userId: string) {
  const others = facts.filter(({ user_id }) => user_id !== null && user_id !== userId);
  const mine = facts.filter((fact) => !others.includes(fact));
  const names = Map.groupBy(mine, ({ category, key }) => JSON.stringify([category, key]));
  const report = {
    assigned: 0,
    replaced: [] as { category: string; key: string }[],
    kept: [] as { category: string; key: string }[],
    doubles: 0,
  };
  const left = [...names.values()].map((rivals) => {
    const [winner, ...losers] = rivals.toSorted(newestFirst);
    if (winner === undefined) throw new Error('A group has a member');
    const { category: named, key } = winner;
    const category = named ?? '';
    const legacyLosers = losers.filter(({ user_id }) => user_id === null).length;
    if (winner.user_id === null) {
      report.assigned += 1;
      report.doubles += legacyLosers;
      if (legacyLosers < losers.length) report.replaced.push({ category, key });
    } else if (legacyLosers > 0) {
      report.kept.push({ category, key });
      report.doubles += legacyLosers - 1;
    }
    if (losers.length === 0) return { ...winner, user_id: userId };
    const created = rivals.map(({ created_us }) => created_us).filter((us) => us !== null);
    return {
      ...winner,
      user_id: userId,
      created_us: created.length === 0 ? null : Math.min(...created),
      updated_us: winner.updated_us ?? winner.created_us,
    };
  });
  return { facts: [...others, ...left].toSorted(byId), report };
}

const writtenUs = ({ updated_us, created_us }: StoredFact) => updated_us ?? created_us ?? -Infinity;

function newestFirst(a: StoredFact, b: StoredFact): number {
  if (writtenUs(a) !== writtenUs(b)) return writtenUs(a) < writtenUs(b) ? 1 : -1;
  if (a.user_id !== b.user_id) return a.user_id === null ? 1 : -1;
  return a.id < b.id ? 1 : -1;
}

function byId(a: { id: string }, b: { id: string }): number {
  return a.id < b.id ? -1 : 1;
}

/** For texts of which none stands in another one, unless they are the same. */
export function adoptSummaries(summaries: readonly StoredSummary[], userId: string) {
  const others = summaries.filter(({ user_id }) => user_id !== null && user_id !== userId);
  const mine = summaries.filter((one) => !others.includes(one)).toSorted(oldestFirst);
  const own = mine.find(({ user_id }) => user_id !== null);
  const survivor = own ?? mine.at(-1);
  const legacy = mine.filter(({ user_id }) => user_id === null).length;
  if (survivor === undefined || legacy === 0) {
    return {
      summaries: [...summaries].toSorted(byId),
      report: { outcome: 'none', legacy: 0 },
    };
  }
  const merged = {
    id: survivor.id,
    user_id: userId,
    summary: [...new Set(mine.map(({ summary }) => summary).filter((text) => text !== null))].join(
      '\n\n',
    ),
    updated_us: mine.at(-1)?.updated_us ?? null,
  };
  return {
    summaries: [...others, merged].toSorted(byId),
    report: { outcome: own === undefined ? 'assigned' : 'merged', legacy },
  };
}

function oldestFirst(a: StoredSummary, b: StoredSummary): number {
  const [aUs, bUs] = [a.updated_us ?? -Infinity, b.updated_us ?? -Infinity];
  if (aUs !== bUs) return aUs < bUs ? -1 : 1;
  if (a.user_id !== b.user_id) return a.user_id === null ? -1 : 1;
  return byId(a, b);
}

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
