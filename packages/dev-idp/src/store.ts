import { generateKeyPair, randomBytes } from 'node:crypto';
import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { type Adapter, type AdapterPayload, errors, type JWKS } from 'oidc-provider';

const SCHEMA_VERSION = 1;

// `artifacts` has a row for each token, code, grant or interaction; generated columns make its payload searchable.
const SCHEMA = `
  create table settings (name text primary key, value text not null) strict;

  create table account_changes (
    sub text primary key,
    blocked integer,
    role_ids text,
    permission_ids text
  ) strict;

  create table artifacts (
    model text not null,
    id text not null,
    payload text not null check (json_valid(payload)),
    expires_at integer,
    grant_id text generated always as (payload ->> '$.grantId') virtual,
    account_id text generated always as (payload ->> '$.accountId') virtual,
    primary key (model, id)
  ) strict, without rowid;

  create index artifacts_by_grant on artifacts (grant_id);
  create index artifacts_by_account on artifacts (account_id);

  pragma user_version = ${SCHEMA_VERSION};
`;

/**
 * Opens the provider's database and creates its tables when they are absent.
 * @param file Readable by its owner only; without one the database lives in memory.
 * @throws Error when the file is no database of this version, naming the file and the remedy.
 */
export function openDatabase(file = ':memory:'): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    if (file !== ':memory:') restrictToOwner(file);
    database = new DatabaseSync(file, { timeout: 5000 });
    database.exec('pragma journal_mode = wal; pragma synchronous = normal; begin immediate');
    const version = Number(database.prepare('pragma user_version').get()?.['user_version']);
    if (version !== 0 && version !== SCHEMA_VERSION) {
      throw new Error(`Its schema has version ${version}, not ${SCHEMA_VERSION}.`);
    }
    if (version === 0) database.exec(SCHEMA);
    database.exec('commit');
    return database;
  } catch (cause) {
    database?.close();
    throw new Error(
      `The development identity provider cannot use its store ${file}. ` +
        'Check its permissions, or delete it to start with nobody signed in.',
      { cause },
    );
  }
}

// The file holds the signing key, so it never exists with wider rights. SQLite gives its journal the same mode.
function restrictToOwner(file: string): void {
  mkdirSync(dirname(file), { recursive: true });
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
}

/** The keys of the provider: `jwks` signs ID tokens, `cookieKeys` its own cookies. */
export type ProviderKeys = { jwks: JWKS; cookieKeys: string[] };

/** Returns the provider's keys, generated at the first start, so that tokens outlive a restart. */
export async function loadKeys(database: DatabaseSync): Promise<ProviderKeys> {
  const read = database.prepare("select value from settings where name = 'keys'");
  if (!read.get()) {
    // RS256 is the algorithm that every OpenID Connect client must accept (OpenID Connect Core 1.0 §15.1).
    const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
    const jwk = { ...privateKey.export({ format: 'jwk' }), kty: 'RSA', use: 'sig', alg: 'RS256' };
    const cookieKeys = [randomBytes(32).toString('base64url')];
    // Another process may have been first: its keys win for both.
    database
      .prepare("insert into settings (name, value) values ('keys', ?) on conflict do nothing")
      .run(JSON.stringify({ jwks: { keys: [jwk] }, cookieKeys }));
  }
  const keys: ProviderKeys = JSON.parse(String(read.get()?.['value']));
  return keys;
}

/** The tokens, codes, grants and interactions of oidc-provider. */
export type Artifacts = ReturnType<typeof createArtifacts>;

const nowSeconds = () => Math.floor(Date.now() / 1000);

/** Keeps oidc-provider's artifacts in SQLite, and deletes the expired ones of earlier runs. */
export function createArtifacts(database: DatabaseSync) {
  database.prepare('delete from artifacts where expires_at <= ?').run(nowSeconds());
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
    /** Returns the adapter of one model, such as `AccessToken` or `Grant`. */
    adapterFor: (model: string): Adapter => ({
      async upsert(id, payload, expiresIn) {
        const expiresAt = expiresIn === undefined ? null : nowSeconds() + expiresIn;
        upsert.run(model, id, JSON.stringify(payload), expiresAt);
      },
      find: async (id) => payloadOf(find.get(model, id)),
      findByUid: async (uid) => payloadOf(findByUid.get(model, uid)),
      findByUserCode: async () => undefined,
      // Two requests can read one token as unused. The second one ends the grant (RFC 9700 §4.14.2).
      async consume(id) {
        if (consume.run(nowSeconds(), model, id).changes === 1) return;
        const replayed = payloadOf(find.get(model, id));
        if (replayed?.grantId) revokeGrant.run(replayed.grantId);
        throw new errors.InvalidGrant('already used');
      },
      async destroy(id) {
        destroy.run(model, id);
      },
      async revokeByGrantId(grantId) {
        revokeByGrant.run(model, grantId);
      },
    }),
    /** Deletes every token, code and grant of an account. */
    revokeAccount: (sub: string) => void revokeAccount.run(sub),
    /** Deletes every token, code and grant of every account. */
    revokeEverybody: () => void revokeAll.run(),
  };
}

function payloadOf(row: Record<string, unknown> | undefined): AdapterPayload | undefined {
  return row && JSON.parse(String(row['payload']));
}
