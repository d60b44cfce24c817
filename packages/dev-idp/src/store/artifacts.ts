import type { DatabaseSync } from 'node:sqlite';
import { type Adapter, type AdapterPayload, errors } from 'oidc-provider';

/** Where oidc-provider keeps its tokens, codes, grants and interactions. */
export type Artifacts = {
  /** The adapter of one model, such as `AccessToken` or `Grant`. */
  adapterFor: (model: string) => Adapter;
  /** Deletes every token, code and grant of the account. */
  revokeAccount: (sub: string) => void;
  /** Deletes every token, code and grant of every account. */
  revokeEverybody: () => void;
};

const secondsBetweenSweeps = 60;
const rowsPerSweep = 500;

/**
 * Keeps oidc-provider's artifacts in SQLite.
 *
 * Expired rows are deleted at the start, and later with a write at most once a minute and at most
 * {@link rowsPerSweep} at a time, so that no request waits for a long deletion.
 *
 * @param now the current time in Unix seconds
 */
export function createArtifacts(database: DatabaseSync, now: () => number = unixTime): Artifacts {
  const statements = {
    upsert: database.prepare(
      `insert into artifacts (model, id, payload, expires_at) values (?, ?, ?, ?)
       on conflict (model, id)
       do update set payload = excluded.payload, expires_at = excluded.expires_at`,
    ),
    find: database.prepare('select payload from artifacts where model = ? and id = ?'),
    findByMember: database.prepare(
      'select payload from artifacts where model = ? and payload ->> ? = ?',
    ),
    consume: database.prepare(
      `update artifacts set payload = json_set(payload, '$.consumed', ?)
       where model = ? and id = ? and payload ->> '$.consumed' is null`,
    ),
    destroy: database.prepare('delete from artifacts where model = ? and id = ?'),
    revokeGrant: database.prepare(
      `delete from artifacts where grant_id = ?1 or (model = 'Grant' and id = ?1)`,
    ),
    revokeByGrantId: database.prepare('delete from artifacts where model = ? and grant_id = ?'),
    revokeAccount: database.prepare('delete from artifacts where account_id = ?'),
    revokeEverybody: database.prepare('delete from artifacts where account_id is not null'),
    sweep: database.prepare(
      `delete from artifacts where (model, id) in
         (select model, id from artifacts where expires_at <= ? limit ?)`,
    ),
  };

  let sweptAt = now();
  while (statements.sweep.run(sweptAt, rowsPerSweep).changes === rowsPerSweep);

  function sweepNowAndThen(): void {
    if (now() - sweptAt < secondsBetweenSweeps) return;
    sweptAt = now();
    statements.sweep.run(sweptAt, rowsPerSweep);
  }

  function adapterFor(model: string): Adapter {
    return {
      async upsert(id, payload, expiresIn) {
        sweepNowAndThen();
        const expiresAt = expiresIn === undefined ? null : now() + expiresIn;
        statements.upsert.run(model, id, JSON.stringify(payload), expiresAt);
      },
      async find(id) {
        return payloadOf(statements.find.get(model, id));
      },
      async findByUid(uid) {
        return payloadOf(statements.findByMember.get(model, '$.uid', uid));
      },
      async findByUserCode(userCode) {
        return payloadOf(statements.findByMember.get(model, '$.userCode', userCode));
      },
      // oidc-provider reads a token and consumes it in two steps, so two requests with one token can
      // both read it unused. The update lets one of them through. The other has replayed a spent
      // token, and the whole grant is revoked as it is when the replay comes later
      // (RFC 9700 §4.14.2).
      async consume(id) {
        if (statements.consume.run(now(), model, id).changes === 1) return;
        const replayed = payloadOf(statements.find.get(model, id));
        if (replayed?.grantId) statements.revokeGrant.run(replayed.grantId);
        throw new errors.InvalidGrant('already used');
      },
      async destroy(id) {
        statements.destroy.run(model, id);
      },
      async revokeByGrantId(grantId) {
        statements.revokeByGrantId.run(model, grantId);
      },
    };
  }

  return {
    adapterFor,
    revokeAccount(sub) {
      statements.revokeAccount.run(sub);
    },
    revokeEverybody() {
      statements.revokeEverybody.run();
    },
  };
}

// Rows are written by `upsert` alone, so the text is a payload that oidc-provider made.
function payloadOf(row: Record<string, unknown> | undefined): AdapterPayload | undefined {
  if (!row) return undefined;
  const payload: AdapterPayload = JSON.parse(String(row['payload']));
  return payload;
}

function unixTime(): number {
  return Math.floor(Date.now() / 1000);
}
