import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { createImage } from '../support/images.ts';
import { startCollector, type FormFile, formOf, sendForm } from '../support/collector.ts';
import { openDatabase, watchLeftovers, payloadOf } from '../support/pipeline.ts';

/** A picture of one colour as a file to be sent. */
export async function pictureFile(colour: string): Promise<FormFile> {
  return { name: `${colour}.png`, bytes: Uint8Array.from(await createImage('png', { colour })) };
}

/** A file that is no picture. */
export const noPicture: FormFile = {
  name: 'notes.txt',
  bytes: Uint8Array.from(Buffer.from('no picture')),
};

export const sha256Of = ({ bytes }: FormFile) => createHash('sha256').update(bytes).digest('hex');

/** A database, and a collector that takes payloads with their pictures in; it has no worker. */
export async function openUploads() {
  const database = await openDatabase();
  const { db } = database;
  const folder = await mkdtemp(join(tmpdir(), 'oselya-form-'));
  after(() => rm(folder, { recursive: true, force: true }));

  /** Another one, with a folder of its own: in one process two cannot tell whose a folder is. */
  const start = (env: Record<string, string> = {}) =>
    startCollector(database, { COLLECTOR_WORKER: 'false', ...env });
  const collector = await start({ DATA_DIR: folder, COLLECTOR_INGEST_PER_MINUTE: '0' });
  const send = (form: FormData | string | undefined, headers?: Record<string, string>) =>
    sendForm(collector.url, form, headers);

  /** How many payloads are stored. */
  async function count(): Promise<number> {
    const all = db.selectFrom('raw_data').select((eb) => eb.fn.countAll<number>().as('count'));
    return (await all.executeTakeFirstOrThrow()).count;
  }

  // What is opened once and stays, such as the folder of the temporary files, is open after this.
  const first = formOf(payloadOf(), [await pictureFile('linen')]);
  assert.equal((await send(first)).status, 200);
  // So is the connection for notifications, which a worker opens and the database keeps.
  await database.listen('first', () => undefined);
  const untilNothingIsLeft = await watchLeftovers({ database, dataDir: folder });

  return { database, db, folder, start, collector, send, count, untilNothingIsLeft };
}
