import { captured, rule, stem, whole } from './patterns.ts';
import type { PropertyType } from './types.ts';

/** The floor of the unit and the number of floors of its building. */
export type Floors = {
  floor: number | null;
  total: number | null;
};

const MAX_FLOORS = 60;
const MAX_HOUSE_FLOORS = 6;
const N = String.raw`(\d{1,2})`;
const ENDING = String.raw`(?: ?-? ?(?:ому|му|го|й|м|ый|ий|ом|х|ти|th|st|nd|rd))?`;
const FLOOR = String.raw`(?:поверс\p{L}*|поверх\p{L}*|пов\.?|этаж\p{L}*|етаж\p{L}*|эт\.?|ет\.?|floors?|fl\.?)(?!\p{L})`;
const OF = String.raw`(?:з|із|зі|из|(?:out )?of|в|у|/|\\|-)`;

/** Both numbers at once, from the plainest to the barest way of writing them. */
const PAIRS: RegExp[] = [
  whole(String.raw`${N}${ENDING} ?[/\\] ?${N}${ENDING} ?-?${FLOOR}`),
  whole(
    String.raw`${FLOOR} ?[:=-]? ?${N}${ENDING} ?${OF} ?(?:a |the )?${N}(?! ?(?:м|кв|к|кімн|m))`,
  ),
  whole(
    String.raw`${N}${ENDING} ?${FLOOR} ?[,(]? ?(?:${OF}) ?(?:a |the |an )?${N}(?! ?(?:м|кв|к|кімн|m|хв))`,
  ),
  whole(String.raw`${N}${ENDING} ?(?:з|із|зі|из|of) ?${N}${ENDING} ?-?${FLOOR}`),
];

const SINGLE: RegExp[] = [
  whole(String.raw`${N}${ENDING} ${FLOOR}`),
  whole(String.raw`${N}-?(?:й|му|м|th|st|nd|rd)? ?(?:поверсі|этаже|поверх|этаж|пов|эт)`),
  whole(String.raw`${FLOOR} ?[:=-]? ?${N}(?! ?(?:м|кв|m|%|хв|мин|\$))`),
];

const TOTAL: RegExp[] = [
  stem(
    String.raw`(?:поверховість|поверховисть|этажность|етажність|storeys|усього поверхів|всего этажей|total floors)(?: будинку| дома)? ?[:=-]? ?${N}(?!\d)`,
  ),
  // A flat on two levels says nothing about the height of its building.
  whole(
    String.raw`${N}${ENDING} ?-? ?(?:(?:поверхов|этажн|етажн)\p{L}*(?! кварт)|поверхівк\p{L}*|этажк\p{L}*|storey\p{L}*|stor(?:y|ies|ied)|floors? building)`,
  ),
  whole(
    String.raw`${N}${ENDING} ?-? ?(?:поверх\p{L}*|пов\.?|этаж\p{L}*|эт\.?) ?(?:будинку|дома|буд|будівлі|здани[ия])`,
  ),
  whole(String.raw`${N} (?:поверхи|поверхів|этажа|этажей|floors|levels)`),
];

/** "Будинок на 10 поверхів, наша на 6-му": the noun is not said twice. */
const ELLIPTIC = whole(String.raw`на ${N} ?- ?(?:му|ому|м|ом)(?! ?\p{L})`);

/** "2 пов", "2-й поверх": in a house the highest of these tells how many floors there are. */
const STOREY = whole(String.raw`${N} ?-? ?(?:й ?)?(?:пов|поверх|эт|этаж|ет|етаж|fl|floor)`, 'gu');

const GROUND = whole(String.raw`ground[ -]floor`);
const LAST = whole(
  String.raw`(?:останн|последн)\p{L}{2,3} (?:поверс\p{L}*|поверх|этаж\p{L}*)|(?:top|last) floor`,
);

const BARE = rule(
  String.raw`(?<![\d/.,\p{L}-])([1-9]\d?) ?[/\\] ?([1-9]\d?)(?![\d/.,]\d|\d| ?[/\\]| ?(?:част|буд|дома|house|of|м2|кв|м |доб|год))`,
  'gu',
);
/** A fraction after a street is a house number, "24/7" never gets here because 24 > 7. */
const STREET = rule(
  String.raw`(?<!\p{L})(?:вул(?:иц\p{L}{1,2})?|ул(?:иц\p{L}{1,2})?|просп(?:ект\p{L}?)?|пр-т|пров|пер|бульвар\p{L}?|б-р|буд|street|st|ave)(?!\p{L})[^,;|\n]{0,30}$|(?<!\p{L})кв\.? ?$`,
);

const plausible = (floor: number | null, total: number | null): boolean =>
  floor !== null && total !== null && floor <= total && total <= MAX_FLOORS;

function readPair(text: string): Floors | null {
  for (const pattern of PAIRS) {
    const match = text.match(pattern);
    const [floor, total] = [captured(match, 1), captured(match, 2)];
    if (plausible(floor, total)) return { floor, total };
  }
  return null;
}

function readBare(text: string): Floors | null {
  for (const match of text.matchAll(BARE)) {
    const before = text.slice(Math.max(0, match.index - 50), match.index);
    const [floor, total] = [captured(match, 1), captured(match, 2)];
    if (plausible(floor, total) && total !== 1 && !STREET.test(before)) return { floor, total };
  }
  return null;
}

function firstOf(patterns: RegExp[], text: string): number | null {
  for (const pattern of patterns) {
    const value = captured(text.match(pattern), 1);
    if (value !== null && value >= 1 && value <= MAX_FLOORS) return value;
  }
  return null;
}

function storeys(text: string): number | null {
  const counts = [...text.matchAll(STOREY)].map((match) => captured(match, 1) ?? 0);
  const most = Math.max(0, ...counts);
  return most >= 1 && most <= MAX_HOUSE_FLOORS ? most : null;
}

/**
 * The floors a folded text gives. A house or a plot has no floor of its own: there a single number
 * is the number of floors.
 */
export function readFloors(folded: string, type: PropertyType | null): Floors {
  const total = firstOf(TOTAL, folded);
  if (type === 'land') return { floor: null, total };
  if (type === 'house') return { floor: null, total: total ?? storeys(folded) };
  const pair = readPair(folded);
  if (pair !== null) return pair;
  const rest = TOTAL.reduce((text, pattern) => text.replace(pattern, ' '), folded);
  const elliptic = total === null ? null : captured(rest.match(ELLIPTIC), 1);
  const floor = firstOf(SINGLE, rest) ?? elliptic ?? (GROUND.test(folded) ? 1 : null);
  if (floor !== null) return { floor, total: total !== null && total >= floor ? total : null };
  const bare = readBare(folded);
  if (bare !== null) return bare;
  return { floor: LAST.test(folded) ? total : null, total };
}

const YEAR = String.raw`(1[5-9]\d\d|20\d\d)`;
const BUILT: RegExp[] = [
  whole(String.raw`(?:built|constructed|completed)(?: in)? ?:? ?${YEAR}`),
  stem(
    String.raw`(?:рік|року|год|года) (?:побудови|будівництва|зведення|постройки|строительства) ?[:=-]? ?${YEAR}`,
  ),
  whole(
    String.raw`${YEAR} ?(?:року?|р\.?|года?|г\.?)? ?(?:побудови|будівництва|зведення|постройки|строительства|п\.?)`,
  ),
  whole(String.raw`(?:побудован|зведен|построен|возведен)\p{L}* (?:у|в) ${YEAR}`),
  whole(
    String.raw`(?:будинк|будинок|новобудов|дом|новостро)\p{L}* ${YEAR} ?(?:року?|р\.?|года?|г\.?)`,
  ),
];

/** Returns the year in which a folded text says that the building was completed. */
export function readYearBuilt(folded: string): number | null {
  const years = BUILT.map((pattern) => captured(folded.match(pattern), 1));
  return years.find((year) => year !== null) ?? null;
}
