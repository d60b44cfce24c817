import { createListingPayload, type Payload } from '../listings/listing.ts';

const SEED = 20_260_103;

/** Number of rounds in which each fact changes once. */
const CHANGE_INTERVAL = 4;

/** Interval between listings with images: one constant image, and one that changes with the text. */
const IMAGE_INTERVAL = 5;

/**
 * Returns the payload of a listing in a round. In one of four rounds, the price changes; in another, the text changes,
 * and with it the vector.
 * @param host URL of the image host.
 */
export function createPayloadForRound(index: number, round: number, host: string): Payload {
  const payload = createListingPayload({ seed: SEED }, index);
  const { price, textVersion } = computeFacts(index, round);
  const addresses = [`${host}/${index}/front`, `${host}/${index}/${textVersion}`];
  return {
    ...payload,
    price,
    ...(index % IMAGE_INTERVAL === 0 && { image_urls: addresses }),
    ...(textVersion > 0 && { description: `${payload.description} Оновлення ${textVersion}.` }),
  };
}

/** Computes the facts that change between rounds. */
function computeFacts(index: number, round: number): { price: number; textVersion: number } {
  const priceVersion =
    Math.floor((round + index) / CHANGE_INTERVAL) - Math.floor(index / CHANGE_INTERVAL);
  const textVersion =
    Math.floor((round + index + 2) / CHANGE_INTERVAL) - Math.floor((index + 2) / CHANGE_INTERVAL);
  return { price: 10_000 + (index % 1000) + priceVersion, textVersion };
}
