import { product } from '../context.ts';
import { done, superseded } from '../outcome.ts';
import type { StageRun } from '../stage.ts';
import { listPictures, type PictureSummary, writePictureSummary } from './enrich.sql.ts';

/** Works out what follows from the listing's pictures, without asking the model again. */
export const enrich: StageRun = async (context, { db }) => {
  const listingId = product(context, 'listingId');
  const pictures = summaryOf(await listPictures(db, listingId));
  return (await writePictureSummary(db, context.job, listingId, pictures)) ? done : superseded;
};

function summaryOf(pictures: Awaited<ReturnType<typeof listPictures>>): PictureSummary | null {
  if (pictures.length === 0) return null;
  const roomTypes: Record<string, number> = {};
  for (const { room_type: type } of pictures) {
    if (type !== null) roomTypes[type] = (roomTypes[type] ?? 0) + 1;
  }
  const stored = pictures.filter(({ sha256 }) => sha256 !== null).length;
  return { stored, failed: pictures.length - stored, room_types: roomTypes };
}
