import { randomBytes } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';

/** The scopes of keys. Contract 4, API keys. */
export const SCOPES = ['ingest', 'search', 'admin'] as const;
/** A scope of a key. */
export type Scope = (typeof SCOPES)[number];

/** A key as requests carry it. */
export type ApiKey = {
  id: string;
  name: string;
  scopes: readonly string[];
  /** The sources for which it may send; null is any. */
  source_slugs: readonly string[] | null;
};

/** A key as an operator sees it. */
export type ApiKeyRecord = ApiKey & {
  created_at: Date;
  last_used_at: Date | null;
  revoked_at: Date | null;
};

/** The access to the keys of the API. Every process reads them from the database. */
export type ApiKeyStore = ReturnType<typeof createApiKeyStore>;

const COLUMNS = ['id', 'name', 'scopes', 'source_slugs'] as const;

/** Creates the access to the collector's API keys. Contract 4, API keys. */
export function createApiKeyStore({ db }: { db: Kysely<Tables> }) {
  return {
    /** Creates a key. The key itself is returned this once: only its hash is stored. */
    async create({
      name,
      scopes,
      sources,
    }: {
      name: string;
      scopes: readonly Scope[];
      sources?: readonly string[];
    }): Promise<ApiKey & { key: string }> {
      const id = randomBytes(6).toString('hex');
      const key = `oselya_${id}_${randomBytes(24).toString('base64url')}`;
      const source_slugs = sources === undefined ? null : [...sources];
      const row = { id, name, scopes: [...scopes], source_slugs };
      await db
        .insertInto('api_keys')
        .values({ ...row, key_hash: sha256(key) })
        .execute();
      return { ...row, key };
    },

    /** Lists every key, revoked ones too, the oldest first. */
    list: (): Promise<ApiKeyRecord[]> =>
      db
        .selectFrom('api_keys')
        .select([...COLUMNS, 'created_at', 'last_used_at', 'revoked_at'])
        .orderBy('created_at')
        .orderBy('id')
        .execute(),

    /** Revokes a key at once on every process. Returns false if it is unknown or was revoked before. */
    async revoke(id: string): Promise<boolean> {
      const { numUpdatedRows } = await db
        .updateTable('api_keys')
        .set({ revoked_at: sql<Date>`now()` })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },

    /** Returns the key of a request; undefined if it is unknown or revoked. */
    async verify(key: string): Promise<ApiKey | undefined> {
      // The key has 192 random bits: a plain hash reveals nothing, and neither does the time of finding it.
      const row = await db
        .selectFrom('api_keys')
        .select([
          ...COLUMNS,
          sql<boolean | null>`last_used_at > now() - interval '1 minute'`.as('is_seen'),
        ])
        .where('key_hash', '=', sha256(key))
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      if (row === undefined) return undefined;
      const { is_seen: isSeen, ...found } = row;
      // Noting the use once a minute saves a write for each request.
      if (isSeen !== true) {
        await db
          .updateTable('api_keys')
          .set({ last_used_at: sql<Date>`now()` })
          .where('id', '=', found.id)
          .execute();
      }
      return found;
    },
  };
}
