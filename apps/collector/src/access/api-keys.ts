import { randomBytes } from 'node:crypto';
import { type Kysely, sql } from 'kysely';
import type { Tables } from '../database/tables.ts';
import { sha256 } from '../text/sha256.ts';

export const SCOPES = ['ingest', 'search', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export type ApiKey = {
  id: string;
  name: string;
  scopes: readonly string[];
  /** Which sources the key may send for; null is any. */
  source_slugs: readonly string[] | null;
};

export type ApiKeyRecord = ApiKey & {
  created_at: Date;
  last_used_at: Date | null;
  revoked_at: Date | null;
};

export type ApiKeys = {
  /** Makes a key. The key itself is given this once: only its hash is kept. */
  create(options: {
    name: string;
    scopes: readonly Scope[];
    sources?: readonly string[];
  }): Promise<ApiKey & { key: string }>;
  /** Every key, revoked ones too, the oldest first. */
  list(): Promise<ApiKeyRecord[]>;
  /** Ends a key's use at once, on every process. False where there is none, or it was revoked before. */
  revoke(id: string): Promise<boolean>;
  /** The key that a request carries, unless it is unknown or revoked. */
  verify(key: string): Promise<ApiKey | undefined>;
};

const columns = ['id', 'name', 'scopes', 'source_slugs'] as const;

/** The collector's API keys. Contract 4, API keys. */
export function createApiKeys({ db }: { db: Kysely<Tables> }): ApiKeys {
  return {
    async create({ name, scopes, sources }) {
      const id = randomBytes(6).toString('hex');
      const key = `oselya_${id}_${randomBytes(24).toString('base64url')}`;
      const row = {
        id,
        name,
        scopes: [...scopes],
        source_slugs: sources === undefined ? null : [...sources],
      };
      await db
        .insertInto('api_keys')
        .values({ ...row, key_hash: sha256(key) })
        .execute();
      return { ...row, key };
    },
    list: () =>
      db
        .selectFrom('api_keys')
        .select([...columns, 'created_at', 'last_used_at', 'revoked_at'])
        .orderBy('created_at')
        .orderBy('id')
        .execute(),
    async revoke(id) {
      const result = await db
        .updateTable('api_keys')
        .set({ revoked_at: sql<Date>`now()` })
        .where('id', '=', id)
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      return result.numUpdatedRows > 0n;
    },
    async verify(key) {
      // The key has 192 random bits, so a plain hash tells nothing, and finding the row by it leaks
      // nothing through timing.
      const found = await db
        .selectFrom('api_keys')
        .select([...columns, sql<boolean>`last_used_at > now() - interval '1 minute'`.as('seen')])
        .where('key_hash', '=', sha256(key))
        .where('revoked_at', 'is', null)
        .executeTakeFirst();
      if (found === undefined) return undefined;
      const { seen, ...apiKey } = found;
      if (!seen) await touch(db, apiKey.id);
      return apiKey;
    },
  };
}

/** Once a minute is enough to know which keys are in use, and spares a write for each request. */
async function touch(db: Kysely<Tables>, id: string): Promise<void> {
  await db
    .updateTable('api_keys')
    .set({ last_used_at: sql<Date>`now()` })
    .where('id', '=', id)
    .execute();
}
