import type { Logger } from '@oselya/kit';
import type { Kysely } from 'kysely';
import type { Tables } from '../tables.ts';
import type { Hub } from './hub.ts';

/** A process as those see it that keep its turns and the database together. */
export type TurnProcess = {
  db: Kysely<Tables>;
  /** Its turns, and who listens to them. */
  hub: Hub;
  /** Names it in notifications, so that it need not hear of its own. */
  sender: string;
  log: Pick<Logger, 'info' | 'warn'>;
};
