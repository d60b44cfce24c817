import { createListingPayload, type Payload } from '../listings/listing.ts';

const SEED = 20_260_103;

/** Number of rounds in which each fact changes once. */
const CHANGE_INTERVAL = 4;

/** One of this many listings has images: one constant image, and one that changes with the text. */
const IMAGE_INTERVAL = 5;

/**
 * Returns the payload of a listing in a round. In one of four rounds the price changes; in another, the
 * text and so the vector.
 * @param host Address of the image host.
 */
export function createPayloadForRound(nth: number, round: number, host: string): Payload {
  const payload = createListingPayload({ seed: SEED }, nth);
  const { price, textVersion } = computeFacts(nth, round);
  const addresses = [`${host}/${nth}/front`, `${host}/${nth}/${textVersion}`];
  return {
    ...payload,
    price,
    ...(nth % IMAGE_INTERVAL === 0 && { image_urls: addresses }),
    ...(textVersion > 0 && { description: `${payload.description} Оновлення ${textVersion}.` }),
  };
}

/** Computes the facts that change between rounds. */
function computeFacts(nth: number, round: number): { price: number; textVersion: number } {
  const priceVersion =
    Math.floor((round + nth) / CHANGE_INTERVAL) - Math.floor(nth / CHANGE_INTERVAL);
  const textVersion =
    Math.floor((round + nth + 2) / CHANGE_INTERVAL) - Math.floor((nth + 2) / CHANGE_INTERVAL);
  return { price: 10_000 + (nth % 1000) + priceVersion, textVersion };
}
