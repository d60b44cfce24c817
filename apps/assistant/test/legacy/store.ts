import { fileURLToPath } from 'node:url';
import { openTestDatabase } from '@oselya/db/testing';
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
