import { clean, compilePattern, compileWords, fold, parseTable, readTable } from './text.ts';

/** Cities with their canonical names: Ukrainian, in the nominative. */
const CITIES = parseTable(readTable('cities')).map(([name, forms]) => ({
  name,
  forms: compileWords(forms, 'gu'),
}));

const DISTRICT_WORD = String.raw`(?:р-н\p{L}*|район\p{L}*|district|raion)`;

/** Districts with their canonical names. `city` is undefined if several cities have a district with this name. */
const DISTRICTS = parseTable(readTable('districts')).map(([key, forms]) => {
  const [title = '', city] = key.split(', ');
  const name = title.replace(' район', '');
  const root = `(?:${forms})(?:ий|ому|ого|ім|ом|ый|ой|yi|iy|y|yy)?`;
  const source = name === title ? forms : `${root} ${DISTRICT_WORD}|${DISTRICT_WORD} ${root}`;
  return { name, city, forms: compileWords(source, 'gu') };
});

/** Returns the cities and districts in folded text, as `city:Львів` and `district:Центр`. */
export function findPlaces(foldedText: string): string[] {
  const findNames = (places: readonly { name: string; forms: RegExp }[], kind: string) =>
    places.flatMap(({ name, forms }) => (foldedText.search(forms) >= 0 ? [`${kind}:${name}`] : []));
  return [...new Set([...findNames(CITIES, 'city'), ...findNames(DISTRICTS, 'district')])];
}

/** Text before a city that is not the location: a distance, or the name of a station, a street or a river. */
const OTHER_LOCATION_PATTERN = compilePattern(
  String.raw`(?:^|[^\p{L}])(?:від|від м\.|от|до|from|to|км|km|траса|трасса|шосе|сторону|бік|towards?|outside|поблизу|недалеко від|under|під|под|обмін на|обмен на|пере(?:їзд|езд|їжджа|езжа)\p{L}* (?:в|у|до)|метро|геро(?:їв|ев)|heroes of|вид\p{L}* на|view of|бере[гз]\p{L}*|наб\.|набережн\p{L}*|річк\p{L}*|рек[аеи])(?: м\.?| г\.?| міста| города)? ?$`,
);

/** A town or village that the table may lack: a capitalized name after a word such as "село". */
const SETTLEMENT_PATTERN = compilePattern(
  String.raw`(?:^|[\s,(])(?:(с\.|село|селі|селе|смт\.?|сел\.|village(?: of)?)|м\.|місто|г\.|город|city of) ?(?!\p{L}+(?:ська|ская|цька|цкая)(?!\p{L}))(\p{Lu}[\p{L}'-]+(?: (?!\p{L}+ (?:обл|р-н|район))\p{Lu}[\p{L}'-]+)?)`,
);

/** Returns the canonical name of a city, or the cleaned input if the city is unknown. */
export function normalizeCity(originalText: string): string {
  const cleanedText = clean(originalText, 200);
  const knownCity = CITIES.find(({ forms }) => fold(cleanedText).search(forms) >= 0);
  return knownCity?.name ?? cleanedText.replace(/^(?:м\.|г\.|с\.|смт)\s?/u, '').trim();
}

/** Returns the place that occurs first in the text. */
function findFirstPlace<T extends { forms: RegExp }>(
  foldedText: string,
  places: T[],
): T | undefined {
  const occurrences = places.flatMap((place) => {
    const match = [...foldedText.matchAll(place.forms)].find(
      ({ index }) => !OTHER_LOCATION_PATTERN.test(foldedText.slice(Math.max(0, index - 24), index)),
    );
    return match ? [{ place, position: match.index }] : [];
  });
  return occurrences.toSorted((a, b) => a.position - b.position)[0]?.place;
}

/**
 * Reads the city and the district. If only one city has the district, the district determines the city as well.
 * @param originalText The cleaned text in its original case.
 * @param knownCity The city in the payload.
 */
export function readPlace(originalText: string, foldedText: string, knownCity: string | undefined) {
  const [, village, name] = SETTLEMENT_PATTERN.exec(originalText) ?? [];
  const city = knownCity ?? (village ? name : findFirstPlace(foldedText, CITIES)?.name);
  const districts = DISTRICTS.filter((district) => !city || (district.city ?? city) === city);
  // A specific name takes precedence over "Центр", the last row of the table, which is vague.
  const [centralDistricts, specificDistricts] = [districts.slice(-1), districts.slice(0, -1)];
  const district =
    findFirstPlace(foldedText, specificDistricts) ?? findFirstPlace(foldedText, centralDistricts);
  return {
    city: city ?? district?.city ?? (name === undefined ? null : normalizeCity(name)),
    district: district?.name ?? null,
  };
}

/** Words for streets and squares, longer forms first. */
const STREET_KIND = String.raw`[Вв]ул(?:иц[яіюі]|\.)|[Вв]ул(?= )|[Уу]л(?:иц[аеуы]|\.)|[Уу]л(?= )|[Пп]росп(?:ект[іуае]?|\.)|[Пп]р(?:-т|\.)|[Бб]ул(?:ьвар[іуае]?|\.)|[Бб]-р|[Пп]л(?:ощ[аі]|ощадь|ощади|\.)|[Пп]ров(?:улок|улку|\.)|[Пп]ер(?:еулок|еулке|\.)|[Нн]абережн(?:а|ая|ій|ой)|[Шш]осе|шоссе|узвіз`;
/** Part of a street name, as in "Шевченка", "І. Франка", "8 Березня" and "Академіка Глушкова". */
const NAME_PART = String.raw`\p{Lu}(?:\.|[\p{L}'-]*)`;
const STREET_NAME = String.raw`(?:\d{1,3}(?:-?\p{Ll}{1,2})? )?${NAME_PART}(?: ?${NAME_PART}){0,2}`;
/** House number. After a comma, a number such as "4/9" is excluded: it usually means floors. */
const HOUSE_NUMBER = String.raw`(?!, ?\d{1,2}/\d),? ?(?:буд\. ?|будинок |дом |д\. ?|№ ?|No ?)?\d{1,4}(?:[-/]\d{1,3})?(?:-?[А-Яа-яІі](?!\p{L}))?(?!\d| ?(?:м|кв|хв|мин|пов|поверх|эт|этаж|й|кімн|комн|к|грн|\$|у\.)(?!\p{L}))`;
const STREET_PATTERN = compilePattern(
  String.raw`(?<!\p{L})(?:${STREET_KIND}) ?(?:${STREET_NAME}|\p{Ll}[\p{L}'-]{3,30})(?:${HOUSE_NUMBER})?`,
  'gu',
);

/** Reads a street, if possible with a house number, in the spelling of the cleaned text. */
export function readAddress(originalText: string): string | null {
  const streets = [...originalText.matchAll(STREET_PATTERN)].map(([street]) => street);
  const street = streets.find((candidate) => /\d\p{L}?$/u.test(candidate)) ?? streets[0];
  return street?.replace(/\s+/gu, ' ').replace(/[\s,.;-]+$/u, '') ?? null;
}
