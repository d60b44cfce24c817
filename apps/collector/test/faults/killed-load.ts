import assert from 'node:assert/strict';
import type { Database } from '@oselya/db';
import type { Payload } from '../../src/ingest/payload.ts';
import type { Tables } from '../../src/tables.ts';
import { createHarness, openModel } from '../support/pipeline.ts';
import { keptOf } from './judge.ts';
import { openWorkerImages } from '../support/images.ts';
import { randomOf } from './load.ts';

export const random = randomOf(20_260_704);

type Db = Database<Tables>['db'];

/** After so many payloads a listing has other pictures. */
const NEW_PICTURES = 40;

/**
 * Payloads of few listings: some change a price, some say the same again, some are no listings.
 * @param pictures Where these are; none without.
 */
export function nextPayload(nth: number, pictures?: string): Payload {
  const listing = Math.floor(random() * 12);
  const isListing = nth % 9 !== 8;
  const price = 1000 * (50 + Math.floor(random() * 3));
  const shown = `${listing}-${price}-${Math.floor(nth / NEW_PICTURES)}`;
  return {
    source_slug: 'killed',
    external_id: `${isListing ? 'flat' : 'junk'}-${listing}`,
    description: isListing
      ? `Продам двокімнатну квартиру у Львові, ${50 + listing} м², 3 поверх з 5.`
      : 'Ремонтуємо телефони та ноутбуки, швидко і недорого. Виїзд майстра.',
    ...(isListing ? { price, currency: 'USD' } : {}),
    ...(pictures === undefined
      ? {}
      : {
          image_urls: [
            `${pictures}/${shown}.png`,
            `${pictures}/missing`,
            `${pictures}/${listing}.png`,
          ],
        }),
  };
}

/** Judges what the killed workers left by what one that nobody disturbs makes of the same payloads. */
export async function judge(
  db: Db,
  { modelUrl, folder }: { modelUrl?: string; folder?: string },
): Promise<void> {
  const model = openModel(modelUrl);
  await using opened = new AsyncDisposableStack();
  opened.defer(() => model.close());
  const pictures = await openWorkerImages({ db, model, folder });
  const harness = createHarness(db, { model, images: pictures.images });
  const payloads = await db.selectFrom('raw_data').select('payload').orderBy('id').execute();
  for (const { payload } of payloads) {
    // The ingest has checked it.
    await harness.process({ ...(payload as unknown as Payload), source_slug: 'control' });
  }
  await pictures.close();
  const [killed, control] = [await keptOf(db, 'killed'), await keptOf(db, 'control')];
  assert.equal(killed.raws.length, payloads.length);
  assert.deepEqual(killed, control);
  const statuses = new Set(killed.raws.map(({ status }) => status));
  assert.ok([...statuses].every((status) => ['completed', 'invalid'].includes(status)));
}

/** How many payloads have not ended yet. */
export async function countLeft(db: Db): Promise<number> {
  const { n } = await db
    .selectFrom('raw_data')
    .select((eb) => eb.fn.countAll<number>().as('n'))
    .where('status', 'in', ['pending', 'processing'])
    .executeTakeFirstOrThrow();
  return n;
}
