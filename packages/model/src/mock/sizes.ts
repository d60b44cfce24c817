import type { PropertyType } from './kinds.ts';
import { compilePattern, createNumberReader, createPatternTester, parseCapture } from './text.ts';

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

/** Patterns that each capture one number. Of several patterns with the same name, the first match wins. */
const readNumber = createNumberReader(String.raw`
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
floor: \<(?:${N}${FLOOR_ENDING} ${FLOOR})\>
floor: \<(?:${N}-?(?:й|му|м|th|st|nd|rd)? ?(?:поверсі|этаже|поверх|этаж|пов|эт))\>
floor: \<(?:${FLOOR} ?[:=-]? ?${N}(?! ?(?:м|кв|m|%|хв|мин|\$)))\>
floors_total: \<(?:(?:поверховість|поверховисть|этажность|етажність|storeys|усього поверхів|всего этажей|total floors)(?: будинку| дома)? ?[:=-]? ?${N}(?!\d))
floors_total: \<(?:${N}${FLOOR_ENDING} ?-? ?(?:(?:поверхов|этажн|етажн)\p{L}*(?! кварт)|поверхівк\p{L}*|этажк\p{L}*|storey\p{L}*|stor(?:y|ies|ied)|floors? building))\>
floors_total: \<(?:${N}${FLOOR_ENDING} ?-? ?(?:поверх\p{L}*|пов\.?|этаж\p{L}*|эт\.?) ?(?:будинку|дома|буд|будівлі|здани[ия]))\>
floors_total: \<(?:${N} (?:поверхи|поверхів|этажа|этажей|floors|levels))\>
`);

const matches = createPatternTester(String.raw`
rooms1: \<(?:одн[уоа]ш(?:к\p{L}*|ечк\p{L}*))\>
rooms2: \<(?:двушк\p{L}*|двошк\p{L}*|двійк[ау]|двушечк\p{L}*)\>
rooms3: \<(?:трешк\p{L}*|трьошк\p{L}*|трійк[ау]|трешечк\p{L}*)\>
rooms4: \<(?:чотирьошк\p{L}*|четырешк\p{L}*|четвершк\p{L}*)\>
studio: \<(?:studio|студі(?:я|ю|ї)|студи(?:я|ю|и)|квартир\p{L}*-студ\p{L}*|гостинк\p{L}*|смарт-?квартир\p{L}*)\>
ground: \<(?:ground[ -]floor)\>
last: \<(?:(?:останн|последн)\p{L}{2,3} (?:поверс\p{L}*|поверх|этаж\p{L}*)|(?:top|last) floor)\>
# Text before a measure of a part, such as a room, or of a price.
ofAPart: (?<!\p{L})(?<!\d[ -]?(?:х )?)(?:кухн|кімнат|комнат|спальн|вітальн|гостин(?!к)|зал|балкон|лоджі|лоджи|терас|террас|хол|кладов|комор|ванн|підвал|подвал|ділянк|участ|kitchen|bedroom|room|living|balcony|terrace|plot|житлов|жил)\p{L}{0,8}[^\d.,;\n]{0,16}$|(?:за|per|від|от) ?$
# Text before a fraction that is a house number, not a floor.
street: (?<!\p{L})(?:вул(?:иц\p{L}{1,2})?|ул(?:иц\p{L}{1,2})?|просп(?:ект\p{L}?)?|пр-т|пров|пер|бульвар\p{L}?|б-р|буд|street|st|ave)(?!\p{L})[^,;|\n]{0,30}$|(?<!\p{L})кв\.? ?$
`);

/**
 * Reads the number of rooms. Falls back to the number of bedrooms, which English texts give. A studio has one room.
 */
export function readRooms(folded: string, type: PropertyType | null): number | null {
  if (type === 'room') return 1;
  if (type === 'land' || type === 'garage') return null;
  const text = folded.replace(/(?:кухн[а-яії]*|kitchen)[ -](?:студ[а-яії]*|studio)/gu, ' ');
  const counted = readNumber('rooms', text, 1, 30);
  const named = [1, 2, 3, 4].find((count) => matches(`rooms${count}`, text));
  const bedrooms = readNumber('bedrooms', text, 1, 30);
  return counted ?? named ?? bedrooms ?? (matches('studio', text) ? 1 : null);
}

type Areas = Record<'total' | 'living' | 'kitchen', number | null>;

const TRIPLE = compilePattern(
  String.raw`(?<![\d/.,])${AREA} ?м?2? ?[/\\|] ?${AREA} ?м?2? ?[/\\|] ?${AREA}(?![\d/])`,
  'gu',
);
const MEASURED = compilePattern(String.raw`(?<![\d.,])${AREA}[ -]?${UNIT}`, 'gu');
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

/** Reads the first measure that is not the area of a part. */
function readMeasured(text: string, pattern = MEASURED): number | null {
  for (const match of text.matchAll(pattern)) {
    const before = text.slice(Math.max(0, match.index - 30), match.index);
    const value = parseCapture(match);
    if (value !== null && value >= 5 && !matches('ofAPart', before)) return value;
  }
  return null;
}

/** Nouns that name the property itself, so a measure after them is the area of the property. */
const OWN_NOUNS = {
  land: compilePattern(String.raw`(?:ділянк|участ|plot)\p{L}*`, 'gu'),
  room: compilePattern(String.raw`(?:кімнат|комнат|room)\p{L}*`, 'gu'),
};

/** Reads the areas of a property: a triple such as "60/40/9", labelled values, or the first measure. */
export function readAreas(folded: string, type: PropertyType | null): Areas {
  const text = type === 'land' || type === 'room' ? folded.replace(OWN_NOUNS[type], ' ') : folded;
  if (type === 'land') {
    const hundredths =
      readNumber('hundredths', folded) ?? 100 * (readNumber('hectares', folded) ?? 0);
    return { total: hundredths * 100 || readMeasured(text), living: null, kitchen: null };
  }
  return (
    readTriple(folded) ?? {
      total:
        readNumber('area_total', folded) ??
        readMeasured(text) ??
        readMeasured(text, LOOSELY_MEASURED),
      living: readNumber('area_living', folded),
      kitchen: readNumber('area_kitchen', folded),
    }
  );
}

/** Floor of the property, and the number of floors of its building. */
type Floors = { floor: number | null; total: number | null };

const MAX_FLOORS = 60;

/** Patterns for a floor with the number of floors, the most explicit form first. */
const PAIRS = [
  String.raw`\<(?:${N}${FLOOR_ENDING} ?[/\\] ?${N}${FLOOR_ENDING} ?-?${FLOOR})\>`,
  String.raw`\<(?:${FLOOR} ?[:=-]? ?${N}${FLOOR_ENDING} ?${OF} ?(?:a |the )?${N}(?! ?(?:м|кв|к|кімн|m)))\>`,
  String.raw`\<(?:${N}${FLOOR_ENDING} ?${FLOOR} ?[,(]? ?(?:${OF}) ?(?:a |the |an )?${N}(?! ?(?:м|кв|к|кімн|m|хв)))\>`,
  String.raw`\<(?:${N}${FLOOR_ENDING} ?(?:з|із|зі|из|of) ?${N}${FLOOR_ENDING} ?-?${FLOOR})\>`,
].map((source) => compilePattern(source));

const BARE = compilePattern(
  String.raw`(?<![\d/.,\p{L}-])([1-9]\d?) ?[/\\] ?([1-9]\d?)(?![\d/.,]\d|\d| ?[/\\]| ?(?:част|буд|дома|house|of|м2|кв|м |доб|год))`,
  'gu',
);

function parseFloorPair(match: RegExpMatchArray | null): Floors | undefined {
  const [floor, total] = [parseCapture(match, 1), parseCapture(match, 2)];
  const isPlausible = floor !== null && total !== null && floor <= total && total <= MAX_FLOORS;
  return isPlausible ? { floor, total } : undefined;
}

/** Returns the first pair such as "5/9" that is no house number. */
function readBarePair(text: string): Floors | undefined {
  const match = text.matchAll(BARE).find(({ index, 2: total }) => {
    return total !== '1' && !matches('street', text.slice(Math.max(0, index - 50), index));
  });
  return parseFloorPair(match ?? null);
}

/** Reads the floor and the number of floors. Houses and plots have no floor. */
export function readFloors(folded: string, type: PropertyType | null): Floors {
  const total = readNumber('floors_total', folded, 1, MAX_FLOORS);
  if (type === 'land' || type === 'house') return { floor: null, total };
  for (const pattern of PAIRS) {
    const pair = parseFloorPair(folded.match(pattern));
    if (pair !== undefined) return pair;
  }
  const floor =
    readNumber('floor', folded, 1, MAX_FLOORS) ?? (matches('ground', folded) ? 1 : null);
  if (floor !== null) return { floor, total: total !== null && total >= floor ? total : null };
  return readBarePair(folded) ?? { floor: matches('last', folded) ? total : null, total };
}
