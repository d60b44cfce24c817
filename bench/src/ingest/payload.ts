/** Number of sources, typical of a large installation. */
export const SOURCES = 200;

/** Number of digits in a listing ID. */
export const ID_DIGITS = 9;

/**
 * Returns a payload of about a kilobyte of JSON, the same for all variants.
 * @param id The listing's ID at its source, of ID_DIGITS digits.
 */
export function createPayload(source: string, id: string) {
  return {
    source_slug: source,
    external_id: `flat-${id}`,
    url: `https://listings.example.test/flats/${id}`,
    title: 'Двокімнатна квартира на Сихові',
    description:
      'Продам двокімнатну квартиру у Львові на Сихові, 54 м², 3 поверх з 5. Поруч школа, садочок і зупинка ' +
      'трамвая. Євроремонт, вбудована кухня, два балкони, індивідуальне опалення. Без комісії, власник.',
    price: 62_000,
    currency: 'USD',
    deal_type: 'sale',
    property_type: 'apartment',
    city: 'Львів',
    district: 'Сихівський',
    rooms: 2,
    area_total: 54,
    area_living: 31.5,
    area_kitchen: 9,
    floor: 3,
    floors_total: 5,
    contact_name: 'Оксана',
    phones: ['+380 00 000 00 00'],
    attributes: { heating: 'gas', balconies: 2, furnished: true },
  };
}

/** Returns the source of the payload at the given index. Consecutive payloads have different sources. */
export const getSourceSlug = (index: number): string => `source-${index % SOURCES}`;
