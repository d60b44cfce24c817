import { captured, rule, stem, whole } from './patterns.ts';

const MAX_ROOMS = 30;

/** Endings between a digit and its noun: "2-х", "3ьох", "5-ти". */
const ENDING = String.raw`(?: ?-? ?(?:х|ох|ьох|ти|и|но))?`;

/** From the most to the least telling; each captures the number of rooms. */
const COUNTS: RegExp[] = [
  stem(
    String.raw`(\d{1,2})${ENDING} ?-? ?(?:кімн|комн|кімант|к[оі]м(?!\p{L})|rooms?(?!\p{L})|room(?:ed)? )`,
  ),
  whole(
    String.raw`(\d)${ENDING} ?-? ?[кk]\.? ?-? ?(?:кв|кварт\p{L}*|кватир\p{L}*|квартер\p{L}*|смарт|апарт\p{L}*|flat)`,
  ),
  stem(
    String.raw`(?:кімнат|комнат|к-сть кімнат|кол-во комнат|rooms?)(?:и|ы)?(?: ?[:=-] ?| )(\d{1,2})(?![\d/]|[.,]\d)(?! ?(?:м|кв|m|sq))`,
  ),
  // "к" alone stands for rooms only when it touches its digit and no money follows.
  whole(String.raw`(?<!\d[.,])([1-6])(?:-?х)?-?к{1,2}(?! ?(?:\$|€|₴|грн|у\.?[ое]|usd|eur|дол))`),
];

const NAMED: [RegExp, number][] = [
  [whole(String.raw`одн[уоа]ш(?:к\p{L}*|ечк\p{L}*)`), 1],
  [whole(String.raw`двушк\p{L}*|двошк\p{L}*|двійк[ау]|двушечк\p{L}*`), 2],
  [whole(String.raw`трешк\p{L}*|трьошк\p{L}*|трійк[ау]|трешечк\p{L}*`), 3],
  [whole(String.raw`чотирьошк\p{L}*|четырешк\p{L}*|четвершк\p{L}*`), 4],
];

const BEDROOMS = stem(String.raw`(\d{1,2}) ?-? ?(?:bedroom|bdrm?|br(?!\p{L})|beds?(?!\p{L}))`);

/** Homes of one room whatever else is said, unless a count is given. */
const ONE_ROOM = whole(
  String.raw`studio|студі(?:я|ю|ї)|студи(?:я|ю|и)|квартир\p{L}*-студ\p{L}*|гостинк\p{L}*|смарт-?квартир\p{L}*`,
);
const KITCHEN_STUDIO = rule(String.raw`(?:кухн\p{L}*|kitchen)[ -](?:студ\p{L}*|studio)`, 'gu');

/**
 * The number of rooms a folded text gives, or null. Texts that count only bedrooms, as English ones
 * do, give that number; a studio has one room.
 */
export function readRooms(folded: string): number | null {
  const text = folded.replace(KITCHEN_STUDIO, ' ');
  for (const pattern of COUNTS) {
    const count = captured(text.match(pattern), 1);
    if (count !== null && count >= 1 && count <= MAX_ROOMS) return count;
  }
  const named = NAMED.find(([pattern]) => pattern.test(text));
  if (named !== undefined) return named[1];
  const bedrooms = captured(text.match(BEDROOMS), 1);
  if (bedrooms !== null && bedrooms >= 1 && bedrooms <= MAX_ROOMS) return bedrooms;
  return ONE_ROOM.test(text) ? 1 : null;
}
