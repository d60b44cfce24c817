import { createApiKeys, type Tables } from '@oselya/collector';
import type { Database } from '@oselya/db';

const NAME = 'oselya dev, sample listings';

export type TemporaryKey = {
  key: string;
  /** Ends its use; harmless when that was done before. */
  revoke: () => Promise<void>;
};

/**
 * Makes the API key with which the sample listings are sent where COLLECTOR_AUTH=required. A key that a
 * killed start left behind is revoked first.
 */
export async function temporaryKey(database: Pick<Database<Tables>, 'db'>): Promise<TemporaryKey> {
  const keys = createApiKeys(database);
  for (const { id, name, revoked_at } of await keys.list()) {
    if (name === NAME && revoked_at === null) await keys.revoke(id);
  }
  const { id, key } = await keys.create({ name: NAME, scopes: ['ingest', 'admin'] });
  return {
    key,
    async revoke() {
      await keys.revoke(id);
    },
  };
}
