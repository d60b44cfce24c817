import { generateKeyPair, randomBytes } from 'node:crypto';
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { type Adapter, type AdapterPayload, errors, type JWKS } from 'oidc-provider';

// `artifacts` has one row per token, code, grant, session or interaction. Generated columns make it searchable.
const SCHEMA_SQL = `
  pragma journal_mode = wal;
  pragma synchronous = normal;

  create table if not exists settings (name text primary key, value text not null) strict;

  -- Table of an earlier version.
  drop table if exists account_changes;

  create table if not exists changed_accounts (sub text primary key, changes text not null) strict;

  create table if not exists artifacts (
    model text not null,
    id text not null,
    payload text not null check (json_valid(payload)),
    expires_at integer,
    grant_id text generated always as (payload ->> '$.grantId') virtual,
    account_id text generated always as (payload ->> '$.accountId') virtual,
    primary key (model, id)
  ) strict, without rowid;

  create index if not exists artifacts_by_grant on artifacts (grant_id);
  create index if not exists artifacts_by_account on artifacts (account_id);
`;

/**
 * Opens the database of the provider, and creates its tables if they do not exist.
 * @param file Database file, which only its owner can read. Without a file, the database is in memory.
 * @throws Error with the name of the file and a solution if the file cannot be used.
 */
export function openDatabase(file = ':memory:'): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    if (file !== ':memory:') restrictToOwner(file);
    database = new DatabaseSync(file, { timeout: 5000 });
    database.exec(SCHEMA_SQL);
    return database;
  } catch (cause) {
    database?.close();
    throw new Error(
      `The development identity provider cannot use its store ${file}. ` +
        'Check its permissions, or delete it to start without signed-in users.',
      { cause },
    );
  }
}

// The file contains the signing key, so only its owner may read it. SQLite copies the permissions to the journal.
function restrictToOwner(file: string): void {
  mkdirSync(dirname(file), { recursive: true });
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
}

/** Keys that sign ID tokens (`jwks`) and cookies (`cookieKeys`). */
export type ProviderKeys = { jwks: JWKS; cookieKeys: string[] };

/** Loads the provider keys, or generates them at the first start. */
export async function loadKeys(database: DatabaseSync): Promise<ProviderKeys> {
  const selectKeys = database.prepare("select value from settings where name = 'keys'");
  if (!selectKeys.get()) {
    // RS256 is the algorithm that every OpenID provider must support (OpenID Connect Core 1.0 §15.1).
    const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
    const jwk = { ...privateKey.export({ format: 'jwk' }), kty: 'RSA', use: 'sig', alg: 'RS256' };
    const cookieKeys = [randomBytes(32).toString('base64url')];
    // If another process has stored its keys first, both processes use those.
    database
      .prepare("insert into settings (name, value) values ('keys', ?) on conflict do nothing")
      .run(JSON.stringify({ jwks: { keys: [jwk] }, cookieKeys }));
  }
  const keys: ProviderKeys = JSON.parse(String(selectKeys.get()?.['value']));
  return keys;
}

/** Store for the artifacts of oidc-provider: tokens, codes, grants, sessions and interactions. */
export type Artifacts = ReturnType<typeof createArtifactStore>;

const getNowSeconds = () => Math.floor(Date.now() / 1000);

/** Creates a store for artifacts. Deletes artifacts that have expired before. */
export function createArtifactStore(database: DatabaseSync) {
  database.prepare('delete from artifacts where expires_at <= ?').run(getNowSeconds());
  const upsert = database.prepare(
    `insert into artifacts (model, id, payload, expires_at) values (?, ?, ?, ?)
     on conflict (model, id)
     do update set payload = excluded.payload, expires_at = excluded.expires_at`,
  );
  const find = database.prepare('select payload from artifacts where model = ? and id = ?');
  const findByUid = database.prepare(
    "select payload from artifacts where model = ? and payload ->> '$.uid' = ?",
  );
  const consume = database.prepare(
    `update artifacts set payload = json_set(payload, '$.consumed', ?)
     where model = ? and id = ? and payload ->> '$.consumed' is null`,
  );
  const destroy = database.prepare('delete from artifacts where model = ? and id = ?');
  const revokeGrant = database.prepare(
    "delete from artifacts where grant_id = ?1 or (model = 'Grant' and id = ?1)",
  );
  const revokeByGrant = database.prepare('delete from artifacts where model = ? and grant_id = ?');
  const revokeAccount = database.prepare('delete from artifacts where account_id = ?');
  const revokeAll = database.prepare('delete from artifacts where account_id is not null');

  return {
    /** Creates the adapter for one model, such as `AccessToken` or `Grant`. */
    createAdapter: (model: string): Adapter => ({
      async upsert(id, payload, expiresIn) {
        const expiresAt = expiresIn === undefined ? null : getNowSeconds() + expiresIn;
        upsert.run(model, id, JSON.stringify(payload), expiresAt);
      },
      find: async (id) => parsePayload(find.get(model, id)),
      findByUid: async (uid) => parsePayload(findByUid.get(model, uid)),
      findByUserCode: async () => undefined,
      // If two concurrent requests use the same token, the second request revokes the grant (RFC 9700 §4.14.2).
      async consume(id) {
        if (consume.run(getNowSeconds(), model, id).changes === 1) return;
        const replayedPayload = parsePayload(find.get(model, id));
        if (replayedPayload?.grantId) revokeGrant.run(replayedPayload.grantId);
        throw new errors.InvalidGrant('already used');
      },
      async destroy(id) {
        destroy.run(model, id);
      },
      async revokeByGrantId(grantId) {
        revokeByGrant.run(model, grantId);
      },
    }),
    /** Deletes every token, code, grant and session of an account. */
    revokeAccount: (sub: string) => void revokeAccount.run(sub),
    /** Deletes every token, code, grant and session of every account. */
    revokeAllAccounts: () => void revokeAll.run(),
  };
}

function parsePayload(row: Record<string, unknown> | undefined): AdapterPayload | undefined {
  return row && JSON.parse(String(row['payload']));
}
