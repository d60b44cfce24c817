import type { TestDatabase } from '@oselya/db/testing';
import type { Tables } from '../../src/tables.ts';
import { temporaryFiles } from './form.ts';
import { until } from './until.ts';

/** What a fault may have left something in. */
export type Places = {
  /** Whose connections nobody has in use. */
  database?: Pick<TestDatabase<Tables>, 'pool'>;
  /** Servers that no connection is open to: of the model, of pictures. */
  servers?: readonly { connections: () => Promise<number> }[];
  /** Where no temporary file is. */
  folder?: string;
};

/** Waits until a fault, and whatever it met, has left nothing behind; fails where something stays. */
export async function untilNothingIsLeft({
  database,
  servers = [],
  folder,
}: Places): Promise<void> {
  await until('the connections to be free', () => {
    return database === undefined || database.pool.totalCount === database.pool.idleCount;
  });
  for (const { connections } of servers) {
    await until('the connections to a server to end', async () => (await connections()) === 0);
  }
  await until('the temporary files to go', async () => {
    return folder === undefined || (await temporaryFiles(folder)).length === 0;
  });
}
