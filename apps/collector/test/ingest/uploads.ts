import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { openFolder } from '@oselya/testing';
import { createImage } from '../support/images.ts';
import { startCollector, type FormFile, createForm, sendForm } from '../support/collector.ts';
import {
  countPayloads,
  openDatabase,
  createResourceLeakCheck,
  createPayload,
} from '../support/pipeline.ts';

/** Creates an image file of one colour. */
export async function createImageFile(colour: string): Promise<FormFile> {
  return { name: `${colour}.png`, bytes: Uint8Array.from(await createImage('png', { colour })) };
}

/** A file that is not an image. */
export const textFile: FormFile = {
  name: 'notes.txt',
  bytes: Uint8Array.from(Buffer.from('no image')),
};

export const hashFile = ({ bytes }: FormFile) => createHash('sha256').update(bytes).digest('hex');

/** Opens a database and a collector without a worker. */
export async function openUploads() {
  const database = await openDatabase();
  const { db } = database;
  const root = await openFolder();
  // Path traversal by a few levels stays within the root.
  const folder = join(root, 'a/b/c/d');
  await mkdir(folder, { recursive: true });

  /** Starts a collector without a worker, by default with a separate data folder. */
  const start = (env: Record<string, string> = {}) =>
    startCollector(database, { COLLECTOR_WORKER: 'false', ...env });
  const collector = await start({ DATA_DIR: folder, COLLECTOR_INGEST_PER_MINUTE: '0' });
  const send = (form: FormData | string | undefined, headers?: Record<string, string>) =>
    sendForm(collector.url, form, headers);

  // The first request opens resources that remain open, such as the temporary folder, so it precedes the leak check.
  const firstForm = createForm(createPayload(), [await createImageFile('linen')]);
  assert.equal((await send(firstForm)).status, 200);
  // The connection for notifications stays open too.
  await database.listen('first', () => undefined);
  const waitUntilResourcesAreFree = await createResourceLeakCheck({ database, dataDir: folder });

  return {
    database,
    db,
    root,
    folder,
    start,
    collector,
    send,
    count: () => countPayloads(db),
    waitUntilResourcesAreFree,
  };
}
