import assert from 'node:assert/strict';
import type { Database } from '@oselya/db';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { createHarness, openModel } from '../support/pipeline.ts';
import { storedListings } from './judge.ts';
import { openWorkerImages } from '../support/images.ts';
import { randomOf } from './load.ts';

export const random = randomOf(20_260_704);

type Db = Database<Tables>['db'];

/** The number of payloads between two changes of images. */
const NEW_IMAGES = 40;

/**
 * Returns payloads of few listings: changed prices, unchanged ones, and payloads that are no listing.
 * @param imageHost The address of the image host, if any.
 */
export function nextPayload(nth: number, imageHost?: string): Payload {
  const listing = Math.floor(random() * 12);
  const isListing = nth % 9 !== 8;
  const price = 1000 * (50 + Math.floor(random() * 3));
  const shown = `${listing}-${price}-${Math.floor(nth / NEW_IMAGES)}`;
  return {
    source_slug: 'killed',
    external_id: `${isListing ? 'flat' : 'junk'}-${listing}`,
    description: isListing
      ? `Продам двокімнатну квартиру у Львові, ${50 + listing} м², 3 поверх з 5.`
      : 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
    ...(isListing ? { price, currency: 'USD' } : {}),
    ...(imageHost === undefined
      ? {}
      : {
          image_urls: [
            `${imageHost}/${shown}.png`,
            `${imageHost}/missing`,
            `${imageHost}/${listing}.png`,
          ],
        }),
  };
}

/** Compares the result of killed workers with an undisturbed run of the same payloads. */
export async function judge(
  db: Db,
  { modelUrl, folder }: { modelUrl?: string; folder?: string },
): Promise<void> {
  const model = openModel(modelUrl);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => model.close());
  const workerImages = await openWorkerImages({ db, model, folder });
  const harness = createHarness(db, { model, images: workerImages.images });
  const payloads = await db.selectFrom('raw_data').select('payload').orderBy('id').execute();
  for (const { payload } of payloads) {
    await harness.process({ ...(payload as unknown as Payload), source_slug: 'control' });
  }
  await workerImages.close();
  const [killed, control] = [
    await storedListings(db, 'killed'),
    await storedListings(db, 'control'),
  ];
  assert.equal(killed.raws.length, payloads.length);
  assert.deepEqual(killed, control);
  const statuses = new Set(killed.raws.map(({ status }) => status));
  assert.ok([...statuses].every((status) => ['completed', 'invalid'].includes(status)));
}

/** Counts the payloads in the queue and in progress. */
export async function countLeft(db: Db): Promise<number> {
  const { n } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('status', 'in', ['pending', 'processing'])
    .executeTakeFirstOrThrow();
  return n;
}
