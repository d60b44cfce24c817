import { randomBytes } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';

/** Scopes of API keys. Contract 4, API keys. */
export const SCOPES = ['ingest', 'search', 'admin'] as const;
/** Scope of an API key. */
export type Scope = (typeof SCOPES)[number];

/** API key of an authorized request. */
export type ApiKey = {
  id: string;
  name: string;
  scopes: readonly string[];
  /** Sources that the key may send payloads for. Null for all sources. */
  source_slugs: readonly string[] | null;
};

/** API key with its dates, for operators. */
export type ApiKeyRecord = ApiKey & {
  created_at: Date;
  last_used_at: Date | null;
  revoked_at: Date | null;
};

/** Store of API keys. Keys are read from the database, so every process sees the same ones. */
export type ApiKeyStore = ReturnType<typeof createApiKeyStore>;

const COLUMNS = ['id', 'name', 'scopes', 'source_slugs'] as const;

/** Creates the store of the collector's API keys. Contract 4, API keys. */
export function createApiKeyStore({ db }: { db: Kysely<Tables> }) {
  return {
    /** Creates a key and returns its plain text. Only the hash is stored, so the text cannot be shown again. */
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

    /** Lists all keys, including revoked ones, oldest first. */
    list: (): Promise<ApiKeyRecord[]> =>
      db
        .selectFrom('api_keys')
        .select([...COLUMNS, 'created_at', 'last_used_at', 'revoked_at'])
        .orderBy('created_at')
        .orderBy('id')
        .execute(),

    /** Revokes a key, effective at once in every process. Returns false if the key is unknown or already revoked. */
    async revoke(id: string): Promise<boolean> {
      const { numUpdatedRows } = await db
        .updateTable('api_keys')
        .set({ revoked_at: sql<Date>`now()` })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return numUpdatedRows > 0n;
    },

    /** Returns the key with this plain text, or undefined if it is unknown or revoked. */
    async verify(key: string): Promise<ApiKey | undefined> {
      // The key has 192 random bits, so neither an unsalted hash nor the lookup time helps an attacker.
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
      // Update the last use at most once a minute, to avoid a write for each request.
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
