import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type { imageDescription, ObjectRequest } from '@oselya/model';
import { Value } from 'typebox/value';
import type { Describer } from '../../src/images/describe.ts';
import { createDisk } from '../../src/disk.ts';
import { createImages, type ImageEvent, type ImagesOptions } from '../../src/images/images.ts';
import { openFolder } from '../../src/images/store-folder.ts';
import { log } from '../support/pipeline.ts';
import { createImageStore } from '../../src/images/store.ts';
import { createSafeFetch } from '../../src/safe-fetch/fetch.ts';
import { openDatabase } from '../support/database.ts';

export type Shown = Pick<
  ObjectRequest<typeof imageDescription.schema>,
  'data' | 'image' | 'operation'
>;

/** A vision model that says the same of every picture, and remembers what it was shown. */
export function visionModel(
  beforeAnswer: (shown: Shown) => void | Promise<void> = () => undefined,
  description = ' A bright\0 kitchen. ',
) {
  const shown: Shown[] = [];
  const model: Describer = {
    visionModel: 'eyes',
    async generateObject({ schema, data, image, operation }) {
      shown.push({ data, image, operation });
      await beforeAnswer({ data, image, operation });
      const answer = { description, room_type: 'kitchen', quality: 'good' };
      const usage = { calls: 1, inputTokens: 0, outputTokens: 0 };
      return { value: Value.Parse(schema, answer), model: 'eyes-1', usage };
    },
  };
  return { model, shown };
}

/** A database, a folder for pictures, and the service over them. */
export async function openImages() {
  const database = await openDatabase();
  const { db } = database;
  const folder = await mkdtemp(join(tmpdir(), 'oselya-images-'));
  after(() => rm(folder, { recursive: true }));
  const temporary = () => join(folder, 'incoming');
  await mkdir(temporary());
  await db.insertInto('sources').values({ slug: 'board' }).execute();
  const store = createImageStore(openFolder(folder, temporary), { log }).store;
  let count = 0;

  /** A listing whose payload is being processed. */
  async function addListing() {
    count += 1;
    const external_id = String(count);
    const { id: rawId } = await db
      .insertInto('raw_data')
      .values({
        source_slug: 'board',
        external_id,
        payload: '{}',
        content_hash: external_id,
        status: 'processing',
        attempt: 1,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const { id: listingId } = await db
      .insertInto('property_listings')
      .values({
        source_slug: 'board',
        external_id,
        description: 'оселя',
        search_text: 'оселя',
        phones: [],
        features: [],
        attributes: '{}',
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await db
      .insertInto('listing_payloads')
      .values({ source_slug: 'board', external_id, raw_id: rawId })
      .execute();
    const signal = new AbortController().signal;
    return { listingId, fence: { rawId, attempt: 1 }, signal };
  }

  function open(options: Partial<ImagesOptions> = {}) {
    const events: ImageEvent[] = [];
    const warnings: Record<string, unknown>[] = [];
    const images = createImages({
      db,
      store,
      storeState: { toOutage: (error) => error },
      temporary,
      disk: createDisk({ folder, minFreeMb: 0 }),
      fetch: createSafeFetch({ allow: ['127.0.0.1'] }),
      model: visionModel().model,
      log: { warn: (fields: Record<string, unknown>) => void warnings.push(fields) },
      observe: (event) => events.push(event),
      limits: { retryDelayMs: 1 },
      ...options,
    });
    return { images, events, warnings };
  }

  const rowsOf = (listingId: number) =>
    db
      .selectFrom('listing_images')
      .select(['position', 'url', 'sha256', 'error'])
      .where('listing_id', '=', listingId)
      .orderBy('position')
      .execute();

  /** The files of the store without the smaller copies, but with the temporary ones. */
  const files = async () =>
    (await readdir(folder, { recursive: true, withFileTypes: true }))
      .filter((entry) => entry.isFile() && !entry.parentPath.includes('thumbnails'))
      .map((entry) => entry.name);

  return { ...database, folder, store, addListing, open, rowsOf, files };
}
