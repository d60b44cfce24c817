import { randomBytes } from 'node:crypto';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import { sha256 } from '../text.ts';
import { findKey, insertKey, listKeys, revokeKey, touchKey } from './repository.ts';

/** What a key may be for. Contract 4, API keys. */
export const SCOPES = ['ingest', 'search', 'admin'] as const;
/** One thing that a key may be for. */
export type Scope = (typeof SCOPES)[number];

/** What a request may do that carries the key. */
export type ApiKey = {
  id: string;
  name: string;
  scopes: readonly string[];
  /** Which sources the key may send for; null is any. */
  source_slugs: readonly string[] | null;
};

/** The same as an operator sees it, with when it was made, used and revoked. */
export type ApiKeyRecord = ApiKey & {
  created_at: Date;
  last_used_at: Date | null;
  revoked_at: Date | null;
};

/** The keys that may use the API; each process looks them up in the database. */
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
      await insertKey(db, { ...row, key_hash: sha256(key) });
      return { ...row, key };
    },
    list: () => listKeys(db),
    revoke: (id) => revokeKey(db, id),
    async verify(key) {
      // The key has 192 random bits, so a plain hash tells nothing, and finding the row by it leaks
      // nothing through timing.
      const found = await findKey(db, sha256(key));
      if (found === undefined) return undefined;
      // Once a minute is enough to know which keys are in use, and spares a write for each request.
      if (!found.isSeen) await touchKey(db, found.key.id);
      return found.key;
    },
  };
}
