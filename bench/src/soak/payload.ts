import { createListingPayload, type Payload } from '../listings/listing.ts';

const SEED = 20_260_103;

/** Number of rounds in which each fact changes once. */
const TURNS = 4;

/** One of this many listings has images: one constant image, and one that changes with the text. */
const IMAGE_INTERVAL = 5;

/**
 * Returns the payload of a listing in a round: in one of four the price changed since the last round, in
 * another the text, so that it needs a new vector; in the others nothing has.
 * @param host Address of the image host.
 */
export function createPayloadForRound(nth: number, turn: number, host: string): Payload {
  const payload = createListingPayload({ seed: SEED }, nth);
  const { price, textVersion } = computeFacts(nth, turn);
  const addresses = [`${host}/${nth}/front`, `${host}/${nth}/${textVersion}`];
  return {
    ...payload,
    price,
    ...(nth % IMAGE_INTERVAL === 0 && { image_urls: addresses }),
    ...(textVersion > 0 && { description: `${payload.description} Оновлення ${textVersion}.` }),
  };
}

/** Computes the facts that change between rounds. */
function computeFacts(nth: number, turn: number): { price: number; textVersion: number } {
  const priceVersion = Math.floor((turn + nth) / TURNS) - Math.floor(nth / TURNS);
  const textVersion = Math.floor((turn + nth + 2) / TURNS) - Math.floor((nth + 2) / TURNS);
  return { price: 10_000 + (nth % 1000) + priceVersion, textVersion };
}
