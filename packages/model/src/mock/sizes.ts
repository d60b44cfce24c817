import type { PropertyType } from './kinds.ts';
import { compilePattern, createNumberReader, createPatternTester, parseCapture } from './text.ts';

const ROOM_ENDING = String.raw`(?: ?-? ?(?:х|ох|ьох|ти|и|но))?`;
const AREA_GROUP = String.raw`(\d{1,6}(?:[.,]\d{1,2})?)`;
const AREA_UNIT = String.raw`(?:кв\.? ?м(?:етр\p{L}*)?|кв\.? ?m|м\.? ?кв|квадрат\p{L}*|кв(?!\p{L})|м ?2|m ?2|sq\.? ?m(?:et(?:er|re)s?|trs?)?|sqm|square met(?:er|re)s?|метр(?:ів|ов|а)? кв\p{L}*)(?![\p{L}\d])`;
/** A bare "м" counts as square metres only next to a word for area: "200 м до метро" is a distance. */
const LOOSE_AREA_UNIT = String.raw`(?: ?(?:${AREA_UNIT}|м(?:етр\p{L}*)?|m)(?!\p{L}))?`;
const LABEL_GAP = String.raw`[ :=~-]{0,3}(?:площа |площадь |площею |площадью |area |is |of |у |в |- |близько |около |about ){0,2}[ :=~-]{0,2}`;
const NUMBER_GROUP = String.raw`(\d{1,2})`;
const FLOOR_ENDING = String.raw`(?: ?-? ?(?:ому|му|го|й|м|ый|ий|ом|х|ти|th|st|nd|rd))?`;
const FLOOR_WORD = String.raw`(?:поверс\p{L}*|поверх\p{L}*|пов\.?|этаж\p{L}*|етаж\p{L}*|эт\.?|ет\.?|floors?|fl\.?)(?!\p{L})`;
const OF_WORD = String.raw`(?:з|із|зі|из|(?:out )?of|в|у|/|\\|-)`;

/** Reader of numbers. Each pattern captures one number. Among patterns with the same name, the first match wins. */
const readNumber = createNumberReader(String.raw`
rooms: \<(?:(\d{1,2})${ROOM_ENDING} ?-? ?(?:кімн|комн|кімант|к[оі]м(?!\p{L})|rooms?(?!\p{L})|room(?:ed)? ))
rooms: \<(?:(\d)${ROOM_ENDING} ?-? ?[кk]\.? ?-? ?(?:кв|кварт\p{L}*|кватир\p{L}*|квартер\p{L}*|смарт|апарт\p{L}*|flat))\>
rooms: \<(?:(?:кімнат|комнат|к-сть кімнат|кол-во комнат|rooms?)(?:и|ы)?(?: ?[:=-] ?| )(\d{1,2})(?![\d/]|[.,]\d)(?! ?(?:м|кв|m|sq)))
rooms: \<(?:(?<!\d[.,])([1-6])(?:-?х)?-?к{1,2}(?! ?(?:\$|€|₴|грн|у\.?[ое]|usd|eur|дол)))\>
bedrooms: \<(?:(\d{1,2}) ?-? ?(?:bedroom|bdrm?|br(?!\p{L})|beds?(?!\p{L})))
area_total: (?<!\p{L})(?:загальн\p{L}*|заг\.?|общ\p{L}*|об\.|площ\p{L}*|метраж\p{L}*|total(?: area)?|area|s(?= ?=)|пл\.?)${LABEL_GAP}${AREA_GROUP}${LOOSE_AREA_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_living: (?<!\p{L})(?:житлов\p{L}*|жил\p{L}*|living(?: area| space)?)${LABEL_GAP}${AREA_GROUP}${LOOSE_AREA_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_kitchen: (?<!\p{L})(?:кухн\p{L}*(?:-(?:студ|віт|гост|їдал|стол)\p{L}*)?|kitchen(?:-\p{L}+)?)${LABEL_GAP}${AREA_GROUP}${LOOSE_AREA_UNIT}(?! ?(?:\$|грн|%|[\d/]))
area_living: (?<![\d.,])${AREA_GROUP} ?${AREA_UNIT} (?:житлов|жил|living)
area_kitchen: (?<![\d.,])${AREA_GROUP}[ -]?${AREA_UNIT} (?:кухн|kitchen)(?!\p{L}* \d)
hundredths: (?<![\d.,])(\d{1,4}(?:[.,]\d{1,2})?) ?-?(?:ти |и )?(?:соток|сотки|сотка|сотку|сот(?!\p{L})|sot(?:ok|k[aiy]s?)(?!\p{L}))
hectares: (?<![\d.,])(\d{1,4}(?:[.,]\d{1,4})?) ?(?:га|гектар\p{L}*|hectares?|ha)(?!\p{L})
floor: \<(?:${NUMBER_GROUP}${FLOOR_ENDING} ${FLOOR_WORD})\>
floor: \<(?:${NUMBER_GROUP}-?(?:й|му|м|th|st|nd|rd)? ?(?:поверсі|этаже|поверх|этаж|пов|эт))\>
floor: \<(?:${FLOOR_WORD} ?[:=-]? ?${NUMBER_GROUP}(?! ?(?:м|кв|m|%|хв|мин|\$)))\>
floors_total: \<(?:(?:поверховість|поверховисть|этажность|етажність|storeys|усього поверхів|всего этажей|total floors)(?: будинку| дома)? ?[:=-]? ?${NUMBER_GROUP}(?!\d))
floors_total: \<(?:${NUMBER_GROUP}${FLOOR_ENDING} ?-? ?(?:(?:поверхов|этажн|етажн)\p{L}*(?! кварт)|поверхівк\p{L}*|этажк\p{L}*|storey\p{L}*|stor(?:y|ies|ied)|floors? building))\>
floors_total: \<(?:${NUMBER_GROUP}${FLOOR_ENDING} ?-? ?(?:поверх\p{L}*|пов\.?|этаж\p{L}*|эт\.?) ?(?:будинку|дома|буд|будівлі|здани[ия]))\>
floors_total: \<(?:${NUMBER_GROUP} (?:поверхи|поверхів|этажа|этажей|floors|levels))\>
`);

const matchesPattern = createPatternTester(String.raw`
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
 * Reads the number of rooms. Falls back to the number of bedrooms, which English texts give. A studio or a room on
 * offer counts as one. Plots and garages have none.
 */
export function readRooms(foldedText: string, propertyType: PropertyType | null): number | null {
  if (propertyType === 'room') return 1;
  if (propertyType === 'land' || propertyType === 'garage') return null;
  const text = foldedText.replace(/(?:кухн[а-яії]*|kitchen)[ -](?:студ[а-яії]*|studio)/gu, ' ');
  const countedRooms = readNumber('rooms', text, 1, 30);
  const namedRooms = [1, 2, 3, 4].find((count) => matchesPattern(`rooms${count}`, text));
  const bedrooms = readNumber('bedrooms', text, 1, 30);
  return countedRooms ?? namedRooms ?? bedrooms ?? (matchesPattern('studio', text) ? 1 : null);
}

type Areas = Record<'total' | 'living' | 'kitchen', number | null>;

const AREA_TRIPLE_PATTERN = compilePattern(
  String.raw`(?<![\d/.,])${AREA_GROUP} ?м?2? ?[/\\|] ?${AREA_GROUP} ?м?2? ?[/\\|] ?${AREA_GROUP}(?![\d/])`,
  'gu',
);
const MEASURE_PATTERN = compilePattern(String.raw`(?<![\d.,])${AREA_GROUP}[ -]?${AREA_UNIT}`, 'gu');
/** Pattern of "48 м." at the end of a clause, but not of lengths such as "200 м до метро" and "стелі 3 м". */
const LOOSE_MEASURE_PATTERN = compilePattern(
  String.raw`(?<!\d[.,]?)(?<!(?:^|[^\p{L}])(?:до|за|через|в|у|від|от|по|моря|море|метро|metro|зупинка|остановка|beach|sea|park|стелі|потолки|ceilings?|фасад|ширина|довжина) )(\d{2,3}(?:[.,]\d{1,2})?) ?[мm](?= ?[,.;:\n]|$)(?!\.? ?(?:до|від|от|пішки|пешком|to|from|away))`,
  'gu',
);

function readTriple(text: string): Areas | null {
  for (const match of text.matchAll(AREA_TRIPLE_PATTERN)) {
    const [total = 0, living = 0, kitchen = 0] = [1, 2, 3].map(
      (group) => parseCapture(match, group) ?? 0,
    );
    // Other triples are dates or fractions.
    if (total >= 10 && total <= 2_000 && total > living && living > kitchen && kitchen >= 2) {
      return { total, living, kitchen };
    }
  }
  return null;
}

/** Reads the first measure that is not the area of a part. */
function readMeasure(text: string, pattern = MEASURE_PATTERN): number | null {
  for (const match of text.matchAll(pattern)) {
    const precedingText = text.slice(Math.max(0, match.index - 30), match.index);
    const value = parseCapture(match);
    if (value !== null && value >= 5 && !matchesPattern('ofAPart', precedingText)) return value;
  }
  return null;
}

/** Patterns of nouns that name the property itself. A measure after such a noun is the area of the property. */
const PROPERTY_NOUN_PATTERNS = {
  land: compilePattern(String.raw`(?:ділянк|участ|plot)\p{L}*`, 'gu'),
  room: compilePattern(String.raw`(?:кімнат|комнат|room)\p{L}*`, 'gu'),
};

/**
 * Reads the areas of a property in m²: a triple such as "60/40/9", labelled values, or the first measure. For land,
 * "соток" (100 m²) and hectares take precedence.
 */
export function readAreas(foldedText: string, propertyType: PropertyType | null): Areas {
  const text =
    propertyType === 'land' || propertyType === 'room'
      ? foldedText.replace(PROPERTY_NOUN_PATTERNS[propertyType], ' ')
      : foldedText;
  if (propertyType === 'land') {
    const hundredths =
      readNumber('hundredths', foldedText) ?? 100 * (readNumber('hectares', foldedText) ?? 0);
    return { total: hundredths * 100 || readMeasure(text), living: null, kitchen: null };
  }
  return (
    readTriple(foldedText) ?? {
      total:
        readNumber('area_total', foldedText) ??
        readMeasure(text) ??
        readMeasure(text, LOOSE_MEASURE_PATTERN),
      living: readNumber('area_living', foldedText),
      kitchen: readNumber('area_kitchen', foldedText),
    }
  );
}

/** Floor of a property, and number of floors of its building. */
type Floors = { floor: number | null; total: number | null };

const MAX_FLOORS = 60;

/** Patterns for a floor with the number of floors, the most explicit form first. */
const FLOOR_PAIR_PATTERNS = [
  String.raw`\<(?:${NUMBER_GROUP}${FLOOR_ENDING} ?[/\\] ?${NUMBER_GROUP}${FLOOR_ENDING} ?-?${FLOOR_WORD})\>`,
  String.raw`\<(?:${FLOOR_WORD} ?[:=-]? ?${NUMBER_GROUP}${FLOOR_ENDING} ?${OF_WORD} ?(?:a |the )?${NUMBER_GROUP}(?! ?(?:м|кв|к|кімн|m)))\>`,
  String.raw`\<(?:${NUMBER_GROUP}${FLOOR_ENDING} ?${FLOOR_WORD} ?[,(]? ?(?:${OF_WORD}) ?(?:a |the |an )?${NUMBER_GROUP}(?! ?(?:м|кв|к|кімн|m|хв)))\>`,
  String.raw`\<(?:${NUMBER_GROUP}${FLOOR_ENDING} ?(?:з|із|зі|из|of) ?${NUMBER_GROUP}${FLOOR_ENDING} ?-?${FLOOR_WORD})\>`,
].map((source) => compilePattern(source));

const BARE_FLOOR_PAIR_PATTERN = compilePattern(
  String.raw`(?<![\d/.,\p{L}-])([1-9]\d?) ?[/\\] ?([1-9]\d?)(?![\d/.,]\d|\d| ?[/\\]| ?(?:част|буд|дома|house|of|м2|кв|м |доб|год))`,
  'gu',
);

function parseFloorPair(match: RegExpMatchArray | null): Floors | undefined {
  const [floor, total] = [parseCapture(match, 1), parseCapture(match, 2)];
  const isPlausible = floor !== null && total !== null && floor <= total && total <= MAX_FLOORS;
  return isPlausible ? { floor, total } : undefined;
}

/** Returns the first pair such as "5/9" that is not a house number. */
function readBareFloorPair(text: string): Floors | undefined {
  const match = text.matchAll(BARE_FLOOR_PAIR_PATTERN).find(({ index, 2: total }) => {
    return total !== '1' && !matchesPattern('street', text.slice(Math.max(0, index - 50), index));
  });
  return parseFloorPair(match ?? null);
}

/** Reads the floor and the number of floors. Houses and plots have no floor. */
export function readFloors(foldedText: string, propertyType: PropertyType | null): Floors {
  const total = readNumber('floors_total', foldedText, 1, MAX_FLOORS);
  if (propertyType === 'land' || propertyType === 'house') return { floor: null, total };
  for (const pattern of FLOOR_PAIR_PATTERNS) {
    const pair = parseFloorPair(foldedText.match(pattern));
    if (pair !== undefined) return pair;
  }
  const floor =
    readNumber('floor', foldedText, 1, MAX_FLOORS) ??
    (matchesPattern('ground', foldedText) ? 1 : null);
  if (floor !== null) return { floor, total: total !== null && total >= floor ? total : null };
  return (
    readBareFloorPair(foldedText) ?? {
      floor: matchesPattern('last', foldedText) ? total : null,
      total,
    }
  );
}
