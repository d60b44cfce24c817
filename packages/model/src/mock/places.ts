import { clean, fold } from './fold.ts';
import { CITIES, DISTRICTS } from './gazetteer.ts';
import { rule, whole } from './patterns.ts';

/** Where a listing is. */
export type Place = {
  city: string | null;
  district: string | null;
};

const MAX_NAME = 200;

const CITY_FORMS = CITIES.map(([name, forms]) => ({ name, forms: whole(forms, 'gu') }));
const DISTRICT_FORMS = DISTRICTS.map(([name, forms, city]) => ({
  name,
  forms: whole(forms, 'gu'),
  only: city,
}));

/** Before the name of a city: something is only far from it, or a station, a street or a river has its name. */
const DISTANCE = rule(
  String.raw`(?:^|[^\p{L}])(?:від|від м\.|от|до|from|to|км|km|траса|трасса|шосе|сторону|бік|towards?|outside|поблизу|недалеко від|under|під|под|обмін на|обмен на|пере(?:їзд|езд|їжджа|езжа)\p{L}* (?:в|у|до)|метро|геро(?:їв|ев)|heroes of|вид\p{L}* на|view of|бере[гз]\p{L}*|наб\.|набережн\p{L}*|річк\p{L}*|рек[аеи])(?: м\.?| г\.?| міста| города)? ?$`,
);
/** "3к в Мелитополе не предлагать" says where the property is not. */
const NOT_OFFERED_THERE = /^,? не (?:пропон|предлаг)/u;

/**
 * Villages are no part of the gazetteer; their word gives them away. Case is needed for names, and a name ends
 * with its line.
 */
const NAME = String.raw`(\p{Lu}[\p{L}'-]+(?: (?!\p{L}+ (?:обл|р-н|район))\p{Lu}[\p{L}'-]+)?)`;
const VILLAGE = rule(
  String.raw`(?:^|[\s,(])(?:с\.|село|селі|селе|смт\.?|сел\.|village of|village) ?${NAME}`,
);
const TOWN = rule(String.raw`(?:^|[\s,(])(?:м\.|місто|г\.|город|city of) ?${NAME}`);

/** The canonical name of a city as someone wrote it, or what they wrote when it is not known. */
export function canonicalCity(written: string): string {
  const folded = fold(clean(written, MAX_NAME));
  const known = CITY_FORMS.find(({ forms }) => folded.search(forms) >= 0);
  return (
    known?.name ??
    clean(written, MAX_NAME)
      .replace(/^(?:м\.|г\.|с\.|смт)\s?/u, '')
      .trim()
  );
}

function firstCity(folded: string): string | null {
  let first: { name: string; at: number } | null = null;
  for (const { name, forms } of CITY_FORMS) {
    for (const { index, 0: found } of folded.matchAll(forms)) {
      if (NOT_OFFERED_THERE.test(folded.slice(index + found.length, index + found.length + 16)))
        continue;
      if (DISTANCE.test(folded.slice(Math.max(0, index - 24), index))) continue;
      if (first === null || index < first.at) first = { name, at: index };
      break;
    }
  }
  return first?.name ?? null;
}

function firstDistrict(folded: string, city: string | null): [string, string | null] | null {
  let first: { name: string; city: string | null; at: number } | null = null;
  for (const { name, forms, only } of DISTRICT_FORMS) {
    if (city !== null && only !== null && only !== city) continue;
    const at = folded.search(forms);
    // The centre is what is said when nothing more exact is, so it never beats a name.
    const better = first === null || first.name === 'Центр' || (at < first.at && name !== 'Центр');
    if (at >= 0 && better) first = { name, city: only, at };
  }
  return first === null ? null : [first.name, first.city];
}

/**
 * City and district of a listing's text. A district that only one city has tells the city too.
 *
 * @param written The cleaned text with its case, where villages and unknown towns are looked for.
 * @param folded The same text folded.
 * @param known The city, where the payload says it.
 */
export function readPlace(written: string, folded: string, known: string | null): Place {
  const village = written.match(VILLAGE)?.[1] ?? null;
  const town = (): string | null => {
    const name = written.match(TOWN)?.[1];
    // "м. Кловська" is a station of the metro.
    const isStation = name === undefined || /(?:ська|ская|цька|цкая)$/u.test(name);
    return isStation ? null : canonicalCity(name);
  };
  const city = known ?? village ?? firstCity(folded);
  const district = firstDistrict(folded, city);
  return { city: city ?? district?.[1] ?? town(), district: district?.[0] ?? null };
}
