import { createApiKeys, type Tables } from '@oselya/collector';
import type { Database } from '@oselya/db';

/** A key that is made for something of this process. */
export type TemporaryKey = {
  key: string;
  /** Ends its use; harmless when that was done before. */
  revoke: () => Promise<void>;
};

/**
 * Makes an API key of the collector's for as long as something of this process needs it. A key of that name
 * which a killed start left behind is revoked first.
 */
export async function temporaryKey(
  database: Pick<Database<Tables>, 'db'>,
  { name, scopes }: Parameters<ReturnType<typeof createApiKeys>['create']>[0],
): Promise<TemporaryKey> {
  const keys = createApiKeys(database);
  for (const earlier of await keys.list()) {
    if (earlier.name === name && earlier.revoked_at === null) await keys.revoke(earlier.id);
  }
  const { id, key } = await keys.create({ name, scopes });
  return {
    key,
    async revoke() {
      await keys.revoke(id);
    },
  };
}
