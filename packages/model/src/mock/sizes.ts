import type { PropertyType } from './kinds.ts';
import {
  parseCapture,
  createNumberReader,
  compilePattern,
  createPatternTester,
  compileWholeWords,
} from './text.ts';

const ROOM_ENDING = String.raw`(?: ?-? ?(?:х|ох|ьох|ти|и|но))?`;
const AREA = String.raw`(\d{1,6}(?:[.,]\d{1,2})?)`;
const UNIT = String.raw`(?:кв\.? ?м(?:етр\p{L}*)?|кв\.? ?m|м\.? ?кв|квадрат\p{L}*|кв(?!\p{L})|м ?2|m ?2|sq\.? ?m(?:et(?:er|re)s?|trs?)?|sqm|square met(?:er|re)s?|метр(?:ів|ов|а)? кв\p{L}*)(?![\p{L}\d])`;
/** A bare "м" counts as square metres only next to a word for area: "200 м до метро" is a distance. */
const LOOSE_UNIT = String.raw`(?: ?(?:${UNIT}|м(?:етр\p{L}*)?|m)(?!\p{L}))?`;
const GAP = String.raw`[ :=~-]{0,3}(?:площа |площадь |площею |площадью |area |is |of |у |в |- |близько |около |about ){0,2}[ :=~-]{0,2}`;
const N = String.raw`(\d{1,2})`;
const FLOOR_ENDING = String.raw`(?: ?-? ?(?:ому|му|го|й|м|ый|ий|ом|х|ти|th|st|nd|rd))?`;
const FLOOR = String.raw`(?:поверс\p{L}*|поверх\p{L}*|пов\.?|этаж\p{L}*|етаж\p{L}*|эт\.?|ет\.?|floors?|fl\.?)(?!\p{L})`;
const OF = String.raw`(?:з|із|зі|из|(?:out )?of|в|у|/|\\|-)`;
const YEAR = String.raw`(1[5-9]\d\d|20\d\d)`;

/** Patterns that each capture one number. Of several patterns with the same name, the first match wins. */
const numbers = createNumberReader(String.raw`
rooms: \<(?:(\d{1,2})${ROOM_ENDING} ?-? ?(?:кімн|комн|кімант|к[оі]м(?!\p{L})|rooms?(?!\p{L})|room(?:ed)? ))
rooms: \<(?:(\d)${ROOM_ENDING} ?-? ?[кk]\.? ?-? ?(?:кв|кварт\p{L}*|кватир\p{L}*|квартер\p{L}*|смарт|апарт\p{L}*|flat))\>
rooms: \<(?:(?:кімнат|комнат|к-сть кімнат|кол-во комнат|rooms?)(?:и|ы)?(?: ?[:=-] ?| )(\d{1,2})(?![\d/]|[.,]\d)(?! ?(?:м|кв|m|sq)))
rooms: \<(?:(?<!\d[.,])([1-6])(?:-?х)?-?к{1,2}(?! ?(?:\$|€|₴|грн|у\.?[ое]|usd|eur|дол)))\>
bedrooms: \<(?:(\d{1,2}) ?-? ?(?:bedroom|bdrm?|br(?!\p{L})|beds?(?!\p{L})))
area_total: (?<!\p{L})(?:загальн\p{L}*|заг\.?|общ\p{L}*|об\.|площ\p{L}*|метраж\p{L}*|total(?: area)?|area|s(?= ?=)|пл\.?)${GAP}${AREA}${LOOSE_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_living: (?<!\p{L})(?:житлов\p{L}*|жил\p{L}*|living(?: area| space)?)${GAP}${AREA}${LOOSE_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_kitchen: (?<!\p{L})(?:кухн\p{L}*(?:-(?:студ|віт|гост|їдал|стол)\p{L}*)?|kitchen(?:-\p{L}+)?)${GAP}${AREA}${LOOSE_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_living: (?<![\d.,])${AREA} ?${UNIT} (?:житлов|жил|living)
area_kitchen: (?<![\d.,])${AREA}[ -]?${UNIT} (?:кухн|kitchen)(?!\p{L}* \d)
hundredths: (?<![\d.,])(\d{1,4}(?:[.,]\d{1,2})?) ?-?(?:ти |и )?(?:соток|сотки|сотка|сотку|сот(?!\p{L})|sot(?:ok|k[aiy]s?)(?!\p{L}))
hectares: (?<![\d.,])(\d{1,4}(?:[.,]\d{1,4})?) ?(?:га|гектар\p{L}*|hectares?|ha)(?!\p{L})
acres: (?<![\d.,])(\d{1,4}(?:[.,]\d{1,2})?) ?acres?(?!\p{L})
floor: \<(?:${N}${FLOOR_ENDING} ${FLOOR})\>
floor: \<(?:${N}-?(?:й|му|м|th|st|nd|rd)? ?(?:поверсі|этаже|поверх|этаж|пов|эт))\>
floor: \<(?:${FLOOR} ?[:=-]? ?${N}(?! ?(?:м|кв|m|%|хв|мин|\$)))\>
elliptic: \<(?:на ${N} ?- ?(?:му|ому|м|ом)(?! ?\p{L}))\>
floors_total: \<(?:(?:поверховість|поверховисть|этажность|етажність|storeys|усього поверхів|всего этажей|total floors)(?: будинку| дома)? ?[:=-]? ?${N}(?!\d))
floors_total: \<(?:${N}${FLOOR_ENDING} ?-? ?(?:(?:поверхов|этажн|етажн)\p{L}*(?! кварт)|поверхівк\p{L}*|этажк\p{L}*|storey\p{L}*|stor(?:y|ies|ied)|floors? building))\>
floors_total: \<(?:${N}${FLOOR_ENDING} ?-? ?(?:поверх\p{L}*|пов\.?|этаж\p{L}*|эт\.?) ?(?:будинку|дома|буд|будівлі|здани[ия]))\>
floors_total: \<(?:${N} (?:поверхи|поверхів|этажа|этажей|floors|levels))\>
year_built: \<(?:(?:built|constructed|completed)(?: in)? ?:? ?${YEAR})\>
year_built: \<(?:(?:рік|року|год|года) (?:побудови|будівництва|зведення|постройки|строительства) ?[:=-]? ?${YEAR})
year_built: \<(?:${YEAR} ?(?:року?|р\.?|года?|г\.?)? ?(?:побудови|будівництва|зведення|постройки|строительства|п\.?))\>
year_built: \<(?:(?:побудован|зведен|построен|возведен)\p{L}* (?:у|в) ${YEAR})\>
year_built: \<(?:(?:будинк|будинок|новобудов|дом|новостро)\p{L}* ${YEAR} ?(?:року?|р\.?|года?|г\.?))\>
`);

const says = createPatternTester(String.raw`
rooms1: \<(?:одн[уоа]ш(?:к\p{L}*|ечк\p{L}*))\>
rooms2: \<(?:двушк\p{L}*|двошк\p{L}*|двійк[ау]|двушечк\p{L}*)\>
rooms3: \<(?:трешк\p{L}*|трьошк\p{L}*|трійк[ау]|трешечк\p{L}*)\>
rooms4: \<(?:чотирьошк\p{L}*|четырешк\p{L}*|четвершк\p{L}*)\>
studio: \<(?:studio|студі(?:я|ю|ї)|студи(?:я|ю|и)|квартир\p{L}*-студ\p{L}*|гостинк\p{L}*|смарт-?квартир\p{L}*)\>
ground: \<(?:ground[ -]floor)\>
last: \<(?:(?:останн|последн)\p{L}{2,3} (?:поверс\p{L}*|поверх|этаж\p{L}*)|(?:top|last) floor)\>
# Text before a measure that belongs to a part: a room, a balcony or the plot.
ofAPart: (?<!\p{L})(?<!\d[ -]?(?:х )?)(?:кухн|кімнат|комнат|спальн|вітальн|гостин(?!к)|зал|балкон|лоджі|лоджи|терас|террас|хол|кладов|комор|ванн|підвал|подвал|ділянк|участ|kitchen|bedroom|room|living|balcony|terrace|plot|житлов|жил)\p{L}{0,8}[^\d.,;\n]{0,16}$
perUnit: (?:за|per|від|от) ?$
# Text before a fraction that is a house number, not a floor.
street: (?<!\p{L})(?:вул(?:иц\p{L}{1,2})?|ул(?:иц\p{L}{1,2})?|просп(?:ект\p{L}?)?|пр-т|пров|пер|бульвар\p{L}?|б-р|буд|street|st|ave)(?!\p{L})[^,;|\n]{0,30}$|(?<!\p{L})кв\.? ?$
`);

const KITCHEN_STUDIO = compilePattern(
  String.raw`(?:кухн\p{L}*|kitchen)[ -](?:студ\p{L}*|studio)`,
  'gu',
);

/**
 * Reads the number of rooms. Falls back to the number of bedrooms, which English texts give. A studio has one room.
 */
export function readRooms(folded: string): number | null {
  const text = folded.replace(KITCHEN_STUDIO, ' ');
  const counted = numbers.read('rooms', text, [1, 30]);
  if (counted !== null) return counted;
  const named = [1, 2, 3, 4].find((count) => says(`rooms${count}`, text));
  return named ?? numbers.read('bedrooms', text, [1, 30]) ?? (says('studio', text) ? 1 : null);
}

/** Areas in square metres. */
export type Areas = Record<'total' | 'living' | 'kitchen', number | null>;

const TRIPLE = compilePattern(
  String.raw`(?<![\d/.,])${AREA} ?м?2? ?[/\\|] ?${AREA} ?м?2? ?[/\\|] ?${AREA}(?![\d/])`,
  'gu',
);
const MEASURED = compilePattern(String.raw`(?<![\d.,])${AREA}[ -]?${UNIT}`, 'gu');
const FEET =
  /(?<![\d.,])(\d{1,2},\d{3}|\d{2,5}) ?-?(?:sq\.? ?f(?:ee|oo)?t|sqft|square f(?:ee|oo)t)/u;
/** Matches "48 м." at the end of a clause, but not lengths such as "200 м до метро" and "стелі 3 м". */
const LOOSELY_MEASURED = compilePattern(
  String.raw`(?<!\d[.,]?)(?<!(?:^|[^\p{L}])(?:до|за|через|в|у|від|от|по|моря|море|метро|metro|зупинка|остановка|beach|sea|park|стелі|потолки|ceilings?|фасад|ширина|довжина) )(\d{2,3}(?:[.,]\d{1,2})?) ?[мm](?= ?[,.;:\n]|$)(?!\.? ?(?:до|від|от|пішки|пешком|to|from|away))`,
  'gu',
);

function readTriple(text: string): Areas | null {
  for (const match of text.matchAll(TRIPLE)) {
    const [total = 0, living = 0, kitchen = 0] = [1, 2, 3].map(
      (nth) => parseCapture(match, nth) ?? 0,
    );
    // Other triples are dates or fractions.
    if (total >= 10 && total <= 2_000 && total > living && living > kitchen && kitchen >= 2) {
      return { total, living, kitchen };
    }
  }
  return null;
}

function readMeasured(text: string, pattern = MEASURED): number | null {
  for (const match of text.matchAll(pattern)) {
    const before = text.slice(Math.max(0, match.index - 30), match.index);
    const value = parseCapture(match);
    if (value === null || value < 5) continue;
    if (!says('ofAPart', before) && !says('perUnit', before)) return value;
  }
  return null;
}

function readFeet(text: string): number | null {
  const written = text.match(FEET)?.[1];
  return written === undefined
    ? null
    : Math.round(Number(written.replace(',', '')) * 0.929_03) / 10;
}

const LAND_UNITS = { hundredths: 100, hectares: 10_000, acres: 4_046.86 };
const PLOT_NOUN = compilePattern(String.raw`(?:ділянк|участ|plot)\p{L}*`, 'gu');
const ROOM_NOUN = compilePattern(String.raw`(?:кімнат|комнат|room)\p{L}*`, 'gu');

/** Reads the area of a plot in square metres: "6 соток" is 600. */
export function readLandArea(folded: string): number | null {
  for (const [unit, squareMetres] of Object.entries(LAND_UNITS)) {
    const value = numbers.read(unit, folded);
    if (value !== null) return Math.round(value * squareMetres * 100) / 100;
  }
  return readMeasured(folded.replace(PLOT_NOUN, ''));
}

/**
 * Reads the areas of a property: from a triple such as "60/40/9", then from labelled values, then from the first
 * measure that is not the area of a part. For a room, the area of the room is the total.
 */
export function readAreas(folded: string, type: PropertyType | null): Areas {
  if (type === 'land') return { total: readLandArea(folded), living: null, kitchen: null };
  const triple = readTriple(folded);
  if (triple !== null) return triple;
  const measured = type === 'room' ? folded.replace(ROOM_NOUN, ' ') : folded;
  return {
    total:
      numbers.read('area_total', folded) ??
      readMeasured(measured) ??
      readFeet(folded) ??
      readMeasured(measured, LOOSELY_MEASURED),
    living: numbers.read('area_living', folded),
    kitchen: numbers.read('area_kitchen', folded),
  };
}

/** Floor of the property, and the number of floors of its building. */
export type Floors = { floor: number | null; total: number | null };

const MAX_FLOORS = 60;
const MAX_HOUSE_FLOORS = 6;

/** Patterns for a floor with the number of floors, the most explicit form first. */
const PAIRS = [
  String.raw`\<(?:${N}${FLOOR_ENDING} ?[/\\] ?${N}${FLOOR_ENDING} ?-?${FLOOR})\>`,
  String.raw`\<(?:${FLOOR} ?[:=-]? ?${N}${FLOOR_ENDING} ?${OF} ?(?:a |the )?${N}(?! ?(?:м|кв|к|кімн|m)))\>`,
  String.raw`\<(?:${N}${FLOOR_ENDING} ?${FLOOR} ?[,(]? ?(?:${OF}) ?(?:a |the |an )?${N}(?! ?(?:м|кв|к|кімн|m|хв)))\>`,
  String.raw`\<(?:${N}${FLOOR_ENDING} ?(?:з|із|зі|из|of) ?${N}${FLOOR_ENDING} ?-?${FLOOR})\>`,
].map((source) => compilePattern(source));

/** Mentions of floors, such as "2 пов" and "2-й поверх". The highest one is the number of floors of a house. */
const STOREY = compileWholeWords(
  String.raw`${N} ?-? ?(?:й ?)?(?:пов|поверх|эт|этаж|ет|етаж|fl|floor)`,
  'gu',
);

const BARE = compilePattern(
  String.raw`(?<![\d/.,\p{L}-])([1-9]\d?) ?[/\\] ?([1-9]\d?)(?![\d/.,]\d|\d| ?[/\\]| ?(?:част|буд|дома|house|of|м2|кв|м |доб|год))`,
  'gu',
);

function parseFloorPair(match: RegExpMatchArray | null): Floors | null {
  const [floor, total] = [parseCapture(match, 1), parseCapture(match, 2)];
  const isPlausible = floor !== null && total !== null && floor <= total && total <= MAX_FLOORS;
  return isPlausible ? { floor, total } : null;
}

function readBarePair(text: string): Floors | null {
  for (const match of text.matchAll(BARE)) {
    const before = text.slice(Math.max(0, match.index - 50), match.index);
    const pair = parseFloorPair(match);
    if (pair !== null && pair.total !== 1 && !says('street', before)) return pair;
  }
  return null;
}

function readStoreys(text: string): number | null {
  const most = Math.max(0, ...[...text.matchAll(STOREY)].map((match) => parseCapture(match) ?? 0));
  return most >= 1 && most <= MAX_HOUSE_FLOORS ? most : null;
}

/** Reads the floor and the number of floors. Houses and plots have no floor, only a number of floors. */
export function readFloors(folded: string, type: PropertyType | null): Floors {
  const total = numbers.read('floors_total', folded, [1, MAX_FLOORS]);
  if (type === 'land') return { floor: null, total };
  if (type === 'house') return { floor: null, total: total ?? readStoreys(folded) };
  for (const pattern of PAIRS) {
    const pair = parseFloorPair(folded.match(pattern));
    if (pair !== null) return pair;
  }
  const rest = numbers.remove('floors_total', folded);
  const elliptic = total === null ? null : numbers.read('elliptic', rest);
  const single = numbers.read('floor', rest, [1, MAX_FLOORS]) ?? elliptic;
  const floor = single ?? (says('ground', folded) ? 1 : null);
  if (floor !== null) return { floor, total: total !== null && total >= floor ? total : null };
  return readBarePair(folded) ?? { floor: says('last', folded) ? total : null, total };
}

/** Reads the year when the building was completed. */
export const readYearBuilt = (folded: string): number | null => numbers.read('year_built', folded);
