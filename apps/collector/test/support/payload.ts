import type { Payload } from '../../src/ingest/payload.ts';

let made = 0;

/** A good payload, of a listing of its own unless `external_id` is given. */
export function payloadOf(overrides: Partial<Payload> = {}): Payload {
  made += 1;
  return {
    source_slug: 'doshka',
    external_id: `flat-${made}`,
    title: 'Двокімнатна квартира',
    description: 'Продам двокімнатну квартиру у Львові, 54 м², 3 поверх з 5. Ціна 62 000 дол.',
    ...overrides,
  };
}
