/** A part of a statement of each stage that has one, and of the queue before and after them. */
export const STATEMENTS = {
  claim: 'with recursive',
  load: 'as "completedHash"',
  upsert: 'insert into property_listings',
  'snapshot, reading': 'from listing_snapshots',
  'snapshot, writing': 'insert into listing_snapshots',
  'images, reading': 'from "listing_images" where "listing_id"',
  'images, writing': 'insert into listing_images',
  'images, describing': 'update images set description',
  'enrich, reading': 'from "listing_images" left join',
  'enrich, writing': "::bigint, 'images', ",
  'embed, writing': 'embedding_text_hash = $',
  finish: 'set completed_hash = ',
};
