import { randomBytes } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';

/** Scopes of API keys. Contract 4, API keys. */
export const SCOPES = ['ingest', 'search', 'on_behalf', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export type ApiKey = {
  id: string;
  name: string;
  scopes: readonly string[];
  /** Sources that the key may send payloads for. Null for all sources. */
  source_slugs: readonly string[] | null;
};

export type ApiKeyStore = ReturnType<typeof createApiKeyStore>;

const KEY_COLUMNS = ['id', 'name', 'scopes', 'source_slugs'] as const;

/** Creates the store of API keys in the database, which all processes share. Contract 4, API keys. */
export function createApiKeyStore({ db }: { db: Kysely<Tables> }) {
  return {
    /** Creates a key and returns it with its plain text, of which only the hash is stored. */
    async create(options: {
      name: string;
      scopes: readonly Scope[];
      sources?: readonly string[];
    }): Promise<ApiKey & { key: string }> {
      const { name, scopes, sources } = options;
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
    list: () =>
      db
        .selectFrom('api_keys')
        .select([...KEY_COLUMNS, 'created_at', 'last_used_at', 'revoked_at'])
        .orderBy('created_at')
        .orderBy('id')
        .execute(),

    /** Revokes a key in every process. Returns false if it is unknown or already revoked. */
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
      // A key has 192 random bits, so neither an unsalted hash nor the lookup time helps an attacker.
      const row = await db
        .selectFrom('api_keys')
        .select([
          ...KEY_COLUMNS,
          sql<boolean | null>`last_used_at > now() - interval '1 minute'`.as('is_recent'),
        ])
        .where('key_hash', '=', sha256(key))
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      if (row === undefined) return undefined;
      const { is_recent: isRecent, ...apiKey } = row;
      // Write at most about once per key and minute, because a write per request would be slow.
      if (isRecent !== true) {
        await db
          .updateTable('api_keys')
          .set({ last_used_at: sql<Date>`now()` })
          .where('id', '=', apiKey.id)
          .execute();
      }
      return apiKey;
    },
  };
}
