import { type Generator, createListing } from './listing.ts';

/** A payload as a source sends it. Contract 4, PayloadSchema. */
export type Payload = { source_slug: string; external_id: string; description: string } & Record<
  string,
  unknown
>;

/** The payload that makes the listing at a place of the sequence, with what a source usually tells. */
export function createListingPayload(generator: Generator, nth: number): Payload {
  const { copy_of: _, language, features, ...told } = createListing(generator, nth);
  const known = Object.entries(told).filter(([, value]) => value !== null);
  // These three are never null.
  return { ...(Object.fromEntries(known) as Payload), attributes: { language, features } };
}

/**
 * Payloads with only a description and a number of images at a host: all facts must be
 * read out of the text.
 */
export function createTextPayloads(
  count: number,
  generator: Generator,
  { host = '', each = 0 }: { host?: string | undefined; each?: number } = {},
): Payload[] {
  return Array.from({ length: count }, (_, nth) => {
    const { source_slug, external_id, description } = createListing(generator, nth);
    const addresses = Array.from({ length: each }, (_none, image) => `${host}/${nth}/${image}`);
    const images = each === 0 ? {} : { image_urls: addresses };
    return { source_slug, external_id, description, ...images };
  });
}
