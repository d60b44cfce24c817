import type { ModelClient } from '@oselya/model';
import type { Kysely } from 'kysely';
import { makeTitle } from '../agent/title.ts';
import { nameUnnamed } from '../sessions/index.ts';
import type { Tables } from '../tables.ts';

/** A title is worth no longer wait. */
const TITLE_MS = 30_000;

/**
 * Gives a session that has no name one by its first message, unless its owner names it meanwhile.
 * @param first.text That message.
 * @param first.modelName Who makes the name.
 * @throws ModelError, and what the database throws.
 */
export async function nameSession(
  {
    db,
    model,
    signal: closing,
  }: {
    db: Kysely<Tables>;
    model: Pick<ModelClient, 'streamChat'>;
    signal: AbortSignal;
  },
  sessionId: string,
  { text, modelName }: { text: string; modelName: string },
): Promise<void> {
  const signal = AbortSignal.any([closing, AbortSignal.timeout(TITLE_MS)]);
  const name = await makeTitle(model, { text, modelName, signal });
  if (name !== '') await nameUnnamed(db, { sessionId, name });
}
