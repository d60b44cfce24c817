import { readFileSync } from 'node:fs';
import { clean, fold, rows, rule, tester, whole } from './text.ts';

/** The city and the district of a listing. */
export type Place = { city: string | null; district: string | null };

const [cityTable = '', districtTable = ''] = readFileSync(
  new URL('places.txt', import.meta.url),
  'utf8',
).split('\n\n');

/** Cities by their canonical names, which are Ukrainian and nominative. */
const CITIES = rows(cityTable).map(([name, forms]) => ({ name, forms: whole(forms, 'gu') }));

const ADJECTIVE = '(?:ий|ому|ого|ім|ом|ый|ой|yi|iy|y|yy)?';
const RAION = String.raw`(?:р-н\p{L}*|район\p{L}*|district|raion)`;

/** Districts by their canonical names, with the city when only one has such a district. */
const DISTRICTS = rows(districtTable).map(([key, forms]) => {
  const [title = '', city = null] = key.split(', ');
  const name = title.replace(' район', '');
  const roots = `(?:${forms})${ADJECTIVE}`;
  const isRaion = name !== title;
  const source = isRaion ? `${roots} ${RAION}|${RAION} ${roots}` : forms;
  return { name, city, forms: whole(source, 'gu') };
});

/** Returns the cities and districts that a folded text names, as words of a vocabulary. */
export function placesIn(folded: string): string[] {
  const found = (places: readonly { name: string; forms: RegExp }[], kind: string) =>
    places.flatMap(({ name, forms }) => (folded.search(forms) >= 0 ? [`${kind}:${name}`] : []));
  return [...new Set([...found(CITIES, 'city'), ...found(DISTRICTS, 'district')])];
}

const says = tester(String.raw`
# Before the name of a city: something is only far from it, or a station, a street or a river has its name.
elsewhere: (?:^|[^\p{L}])(?:від|від м\.|от|до|from|to|км|km|траса|трасса|шосе|сторону|бік|towards?|outside|поблизу|недалеко від|under|під|под|обмін на|обмен на|пере(?:їзд|езд|їжджа|езжа)\p{L}* (?:в|у|до)|метро|геро(?:їв|ев)|heroes of|вид\p{L}* на|view of|бере[гз]\p{L}*|наб\.|набережн\p{L}*|річк\p{L}*|рек[аеи])(?: м\.?| г\.?| міста| города)? ?$
# After it: "3к в Мелитополе не предлагать".
notOffered: ^,? не (?:пропон|предлаг)
# "м. Кловська" is a station of the metro.
station: (?:ська|ская|цька|цкая)$
numbered: \d\p{L}?$
`);

/** Villages are not in the table; their word gives them away. Names need case, and end with their line. */
const NAME = String.raw`(\p{Lu}[\p{L}'-]+(?: (?!\p{L}+ (?:обл|р-н|район))\p{Lu}[\p{L}'-]+)?)`;
const VILLAGE = rule(
  String.raw`(?:^|[\s,(])(?:с\.|село|селі|селе|смт\.?|сел\.|village of|village) ?${NAME}`,
);
const TOWN = rule(String.raw`(?:^|[\s,(])(?:м\.|місто|г\.|город|city of) ?${NAME}`);

/** Returns the canonical name of a city, or the name as written when it is unknown. */
export function canonicalCity(written: string): string {
  const cleaned = clean(written, 200);
  const folded = fold(cleaned);
  const known = CITIES.find(({ forms }) => folded.search(forms) >= 0);
  return known?.name ?? cleaned.replace(/^(?:м\.|г\.|с\.|смт)\s?/u, '').trim();
}

function firstCity(folded: string): string | null {
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

function firstDistrict(folded: string, city: string | null): (typeof DISTRICTS)[number] | null {
  let first: { district: (typeof DISTRICTS)[number]; at: number } | null = null;
  for (const district of DISTRICTS) {
    if (city !== null && district.city !== null && district.city !== city) continue;
    const at = folded.search(district.forms);
    // "Центр" is said when nothing more exact is, so it never beats a name.
    const isBetter =
      first === null ||
      first.district.name === 'Центр' ||
      (at < first.at && district.name !== 'Центр');
    if (at >= 0 && isBetter) first = { district, at };
  }
  return first?.district ?? null;
}

/**
 * Reads city and district. A district that only one city has gives the city too.
 * @param written The cleaned text with its case, where villages and unknown towns are looked for.
 * @param known The city of the payload.
 */
export function readPlace(written: string, folded: string, known: string | null): Place {
  const city = known ?? written.match(VILLAGE)?.[1] ?? firstCity(folded);
  const district = firstDistrict(folded, city);
  const town = written.match(TOWN)?.[1];
  const unknown = town === undefined || says('station', town) ? null : canonicalCity(town);
  return { city: city ?? district?.city ?? unknown, district: district?.name ?? null };
}

/** Words for streets and squares, longer forms first. */
const KIND = String.raw`[Вв]ул(?:иц[яіюі]|\.)|[Вв]ул(?= )|[Уу]л(?:иц[аеуы]|\.)|[Уу]л(?= )|[Пп]росп(?:ект[іуае]?|\.)|[Пп]р(?:-т|\.)|[Бб]ул(?:ьвар[іуае]?|\.)|[Бб]-р|[Пп]л(?:ощ[аі]|ощадь|ощади|\.)|[Пп]ров(?:улок|улку|\.)|[Пп]ер(?:еулок|еулке|\.)|[Нн]абережн(?:а|ая|ій|ой)|[Шш]осе|шоссе|узвіз`;
/** "Шевченка", "І. Франка", "8 Березня", "Академіка Глушкова". */
const NAME_PART = String.raw`\p{Lu}(?:\.|[\p{L}'-]*)`;
const STREET_NAME = String.raw`(?:\d{1,3}(?:-?\p{Ll}{1,2})? )?${NAME_PART}(?: ?${NAME_PART}){0,2}`;
/** After a comma two numbers with a slash are floors, "4/9", more often than a house. */
const HOUSE = String.raw`(?!, ?\d{1,2}/\d),? ?(?:буд\. ?|будинок |дом |д\. ?|№ ?|No ?)?\d{1,4}(?:[-/]\d{1,3})?(?:-?[А-Яа-яІі](?!\p{L}))?(?!\d| ?(?:м|кв|хв|мин|пов|поверх|эт|этаж|й|кімн|комн|к|грн|\$|у\.)(?!\p{L}))`;
const STREET = rule(
  String.raw`(?<!\p{L})(?:${KIND}) ?(?:${STREET_NAME}|\p{Ll}[\p{L}'-]{3,30})(?:${HOUSE})?`,
  'gu',
);
const ENGLISH_NAME = String.raw`\p{Lu}[\p{L}'-]{1,30}(?: \p{Lu}[\p{L}'-]{1,30}){0,2}`;
const ENGLISH_STREET = rule(
  String.raw`(?<![\p{L}\d])(?:\d{1,4}[A-Za-z]?,? )?${ENGLISH_NAME} (?:Street|St|Avenue|Ave|Boulevard|Blvd|Lane|Square)(?!\p{L})\.?` +
    String.raw`(?:,? \d{1,4}(?:/\d{1,3})?[A-Za-z]?(?![\p{L}\d]| ?(?:m|sq|min|floor|bed|room)))?`,
);

/** Reads street and number as the cleaned text writes them. */
export function readAddress(written: string): string | null {
  const streets = [...written.matchAll(STREET)].map(([street]) => street);
  // A street that comes with a number says more than one without.
  const best = streets.find((street) => says('numbered', street)) ?? streets[0];
  const address = best ?? ENGLISH_STREET.exec(written)?.[0] ?? null;
  return address?.replace(/\s+/gu, ' ').replace(/[\s,.;-]+$/u, '') ?? null;
}
