import { readFileSync } from 'node:fs';
import {
  clean,
  fold,
  parseTable,
  compilePattern,
  createPatternTester,
  compileWholeWords,
} from './text.ts';

/** City and district of a listing. */
export type Place = { city: string | null; district: string | null };

const [cityTable = '', districtTable = ''] = readFileSync(
  new URL('places.txt', import.meta.url),
  'utf8',
).split('\n\n');

/** Cities with their canonical names: Ukrainian, in the nominative. */
const CITIES = parseTable(cityTable).map(([name, forms]) => ({
  name,
  forms: compileWholeWords(forms, 'gu'),
}));

const ADJECTIVE = '(?:ий|ому|ого|ім|ом|ый|ой|yi|iy|y|yy)?';
const RAION = String.raw`(?:р-н\p{L}*|район\p{L}*|district|raion)`;

/** Districts with their canonical names. `city` is null if several cities have a district with this name. */
const DISTRICTS = parseTable(districtTable).map(([key, forms]) => {
  const [title = '', city = null] = key.split(', ');
  const name = title.replace(' район', '');
  const roots = `(?:${forms})${ADJECTIVE}`;
  const isRaion = name !== title;
  const source = isRaion ? `${roots} ${RAION}|${RAION} ${roots}` : forms;
  return { name, city, forms: compileWholeWords(source, 'gu') };
});

/** Returns the cities and districts that a folded text names, as `city:Львів` and `district:Центр`. */
export function findPlaces(folded: string): string[] {
  const found = (places: readonly { name: string; forms: RegExp }[], kind: string) =>
    places.flatMap(({ name, forms }) => (folded.search(forms) >= 0 ? [`${kind}:${name}`] : []));
  return [...new Set([...found(CITIES, 'city'), ...found(DISTRICTS, 'district')])];
}

const says = createPatternTester(String.raw`
# Text before a city name that is not the location: a distance, or the name of a station, a street or a river.
elsewhere: (?:^|[^\p{L}])(?:від|від м\.|от|до|from|to|км|km|траса|трасса|шосе|сторону|бік|towards?|outside|поблизу|недалеко від|under|під|под|обмін на|обмен на|пере(?:їзд|езд|їжджа|езжа)\p{L}* (?:в|у|до)|метро|геро(?:їв|ев)|heroes of|вид\p{L}* на|view of|бере[гз]\p{L}*|наб\.|набережн\p{L}*|річк\p{L}*|рек[аеи])(?: м\.?| г\.?| міста| города)? ?$
# Text after a city name that excludes the city: "3к в Мелитополе не предлагать".
notOffered: ^,? не (?:пропон|предлаг)
# Names such as "Кловська": here "м." stands for a metro station, not for a city.
station: (?:ська|ская|цька|цкая)$
numbered: \d\p{L}?$
`);

/** Name of a village. The table has no villages, so a capitalized name after a word such as "село" counts as one. */
const NAME = String.raw`(\p{Lu}[\p{L}'-]+(?: (?!\p{L}+ (?:обл|р-н|район))\p{Lu}[\p{L}'-]+)?)`;
const VILLAGE = compilePattern(
  String.raw`(?:^|[\s,(])(?:с\.|село|селі|селе|смт\.?|сел\.|village of|village) ?${NAME}`,
);
const TOWN = compilePattern(String.raw`(?:^|[\s,(])(?:м\.|місто|г\.|город|city of) ?${NAME}`);

/** Returns the canonical name of a city, or the cleaned input if the city is unknown. */
export function normalizeCity(written: string): string {
  const cleaned = clean(written, 200);
  const folded = fold(cleaned);
  const known = CITIES.find(({ forms }) => folded.search(forms) >= 0);
  return known?.name ?? cleaned.replace(/^(?:м\.|г\.|с\.|смт)\s?/u, '').trim();
}

function findFirstCity(folded: string): string | null {
  let first: { name: string; at: number } | null = null;
  for (const { name, forms } of CITIES) {
    for (const { index: at, 0: found } of folded.matchAll(forms)) {
      const end = at + found.length;
      if (says('notOffered', folded.slice(end, end + 16))) continue;
      if (says('elsewhere', folded.slice(Math.max(0, at - 24), at))) continue;
      if (first === null || at < first.at) first = { name, at };
      break;
    }
  }
  return first?.name ?? null;
}

function findFirstDistrict(folded: string, city: string | null): (typeof DISTRICTS)[number] | null {
  let first: { district: (typeof DISTRICTS)[number]; at: number } | null = null;
  for (const district of DISTRICTS) {
    if (city !== null && district.city !== null && district.city !== city) continue;
    const at = folded.search(district.forms);
    // A specific name takes precedence over "Центр", which is vague.
    const isBetter =
      first === null ||
      first.district.name === 'Центр' ||
      (at < first.at && district.name !== 'Центр');
    if (at >= 0 && isBetter) first = { district, at };
  }
  return first?.district ?? null;
}

/**
 * Reads the city and the district. If only one city has the district, it determines the city as well.
 * @param written The cleaned text in its original case, to find villages and unknown towns.
 * @param known The city in the payload.
 */
export function readPlace(written: string, folded: string, known: string | null): Place {
  const city = known ?? written.match(VILLAGE)?.[1] ?? findFirstCity(folded);
  const district = findFirstDistrict(folded, city);
  const town = written.match(TOWN)?.[1];
  const unknown = town === undefined || says('station', town) ? null : normalizeCity(town);
  return { city: city ?? district?.city ?? unknown, district: district?.name ?? null };
}

/** Words for streets and squares, longer forms first. */
const KIND = String.raw`[Вв]ул(?:иц[яіюі]|\.)|[Вв]ул(?= )|[Уу]л(?:иц[аеуы]|\.)|[Уу]л(?= )|[Пп]росп(?:ект[іуае]?|\.)|[Пп]р(?:-т|\.)|[Бб]ул(?:ьвар[іуае]?|\.)|[Бб]-р|[Пп]л(?:ощ[аі]|ощадь|ощади|\.)|[Пп]ров(?:улок|улку|\.)|[Пп]ер(?:еулок|еулке|\.)|[Нн]абережн(?:а|ая|ій|ой)|[Шш]осе|шоссе|узвіз`;
/** Part of a street name, as in "Шевченка", "І. Франка", "8 Березня" and "Академіка Глушкова". */
const NAME_PART = String.raw`\p{Lu}(?:\.|[\p{L}'-]*)`;
const STREET_NAME = String.raw`(?:\d{1,3}(?:-?\p{Ll}{1,2})? )?${NAME_PART}(?: ?${NAME_PART}){0,2}`;
/** House number. After a comma, a number such as "4/9" is excluded: it usually means floors. */
const HOUSE = String.raw`(?!, ?\d{1,2}/\d),? ?(?:буд\. ?|будинок |дом |д\. ?|№ ?|No ?)?\d{1,4}(?:[-/]\d{1,3})?(?:-?[А-Яа-яІі](?!\p{L}))?(?!\d| ?(?:м|кв|хв|мин|пов|поверх|эт|этаж|й|кімн|комн|к|грн|\$|у\.)(?!\p{L}))`;
const STREET = compilePattern(
  String.raw`(?<!\p{L})(?:${KIND}) ?(?:${STREET_NAME}|\p{Ll}[\p{L}'-]{3,30})(?:${HOUSE})?`,
  'gu',
);
const ENGLISH_NAME = String.raw`\p{Lu}[\p{L}'-]{1,30}(?: \p{Lu}[\p{L}'-]{1,30}){0,2}`;
const ENGLISH_STREET = compilePattern(
  String.raw`(?<![\p{L}\d])(?:\d{1,4}[A-Za-z]?,? )?${ENGLISH_NAME} (?:Street|St|Avenue|Ave|Boulevard|Blvd|Lane|Square)(?!\p{L})\.?` +
    String.raw`(?:,? \d{1,4}(?:/\d{1,3})?[A-Za-z]?(?![\p{L}\d]| ?(?:m|sq|min|floor|bed|room)))?`,
);

/** Reads the street and the house number, in the spelling of the cleaned text. */
export function readAddress(written: string): string | null {
  const streets = [...written.matchAll(STREET)].map(([street]) => street);
  // Prefer a street with a house number.
  const best = streets.find((street) => says('numbered', street)) ?? streets[0];
  const address = best ?? ENGLISH_STREET.exec(written)?.[0] ?? null;
  return address?.replace(/\s+/gu, ' ').replace(/[\s,.;-]+$/u, '') ?? null;
}
