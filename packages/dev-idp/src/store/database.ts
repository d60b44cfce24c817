import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

const schemaVersion = 1;

// `artifacts` holds whatever oidc-provider saves, one row a token, code, grant or interaction. The
// payload is the truth; the generated columns only make it searchable, so they cannot drift from it.
const schema = `
  create table settings (
    name text primary key,
    value text not null
  ) strict;

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
  create index artifacts_by_expiry on artifacts (expires_at);

  pragma user_version = ${schemaVersion};
`;

/**
 * Opens the provider's database and creates its tables when they are absent.
 *
 * @param file where to keep it, readable by its owner only; without one it lives in memory
 * @throws Error when the file is no database of this version, saying which file and what to do
 */
export function openDatabase(file?: string): DatabaseSync {
  if (file === undefined) return prepareDatabase(':memory:');
  try {
    restrictToOwner(file);
    return prepareDatabase(file);
  } catch (cause) {
    throw new Error(
      `The development identity provider cannot use its store ${file}. ` +
        'Check its permissions, or delete it to start with nobody signed in.',
      { cause },
    );
  }
}

// The file holds the signing key, so it must never exist with wider rights, not even for the moment
// between its creation and a later chmod. SQLite gives its journal files the same mode.
function restrictToOwner(file: string): void {
  mkdirSync(dirname(file), { recursive: true });
  closeSync(openSync(file, 'a', 0o600));
  chmodSync(file, 0o600);
}

function prepareDatabase(location: string): DatabaseSync {
  const database = new DatabaseSync(location, { timeout: 5000 });
  try {
    database.exec('pragma journal_mode = wal; pragma synchronous = normal;');
    createTables(database);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function createTables(database: DatabaseSync): void {
  database.exec('begin immediate');
  const found = Number(database.prepare('pragma user_version').get()?.['user_version']);
  if (found !== 0 && found !== schemaVersion) {
    throw new Error(
      `Its schema has version ${found}; this program knows version ${schemaVersion}.`,
    );
  }
  if (found === 0) database.exec(schema);
  database.exec('commit');
}
