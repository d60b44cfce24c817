import { stem, whole } from './patterns.ts';
import type { PropertyType } from './types.ts';

/**
 * Nouns as they stand when the thing itself is offered: nominative, accusative, and the genitive
 * after "продаж" and "оренда". "У новому будинку" or "в доме 1975 года" are not among them, because
 * there the house only holds the flat.
 */
const NOUNS: [PropertyType, RegExp][] = [
  [
    'apartment',
    whole(
      String.raw`(?:квартир|кватир|квартер|кв[ао]ртир|квартирк|апартамент|апартмент|апарт|студі|студи|смарт|гостинк|малосімейк|малосемейк|пентхаус|пентхауз)\p{L}*|(?:одн|дв|тр|четвер|чотир)[уоеьи]{0,2}шк[аиуо]й?|трьошк[ау]|трешк[ау]|однокімнатн\p{L}*|\d ?-? ?(?:х |х-|х|ох|ьох|ти|и|но)? ?-?(?:(?:кімнатн|комнатн|кімн|комн)\p{L}*|кім|ком)\.? ?(?:кв)?|\d ?-? ?х? ?[кk]\.? ?(?:кв|кварт\p{L}*)|\dк{1,2}(?! ?\$| ?грн| ?у| ?usd)|flats?|apartments?|apts?|appartments?|apartement|condo|studio|penthouse|loft|\d ?-? ?(?:br|bdr|bed|bedrooms?)`,
      'gu',
    ),
  ],
  [
    'house',
    whole(
      String.raw`будинок|будиночок|дім|дом|домик|хат[аиу]|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:будинку|дома)|(?:половин|частин|част|пів|пол)\p{L}* ?(?:будинку|дома)|півбудинку|полдома|(?:котедж|коттедж|таунхаус|таунхауз|дуплекс|вілл|вилл|дач|особняк|садиб|усадьб|маєт)\p{L}*|house|cottage|townhouse|villa|duplex|bungalow`,
      'gu',
    ),
  ],
  [
    'room',
    whole(
      String.raw`(?:кімнат[ауи]|комнат[ауы]|койко-?\p{L}+|ліжко-місце|підселення|подселение)|(?<!living |dining |bath|bed|bath |bed |laundry |storage |one )room(?! (?:apartment|flat|house))`,
      'gu',
    ),
  ],
  [
    'land',
    whole(
      String.raw`(?:ділянк|участк|землі|земл)\p{L}*|участок|земельн\p{L}*|plot|land plot|plot of land|(?<!no )land|acreage`,
      'gu',
    ),
  ],
  [
    'commercial',
    whole(
      String.raw`офіс|офис|(?:приміщенн|помещени)\p{L}*|магазин|склад|кафе|салон|шоурум|(?:комерційн|коммерческ)\p{L}*|ангар|office|retail|warehouse|shop|commercial|showroom|workshop|coworking`,
      'gu',
    ),
  ],
  [
    'garage',
    whole(
      String.raw`гараж|гаража|гаражний|гаражный|(?:паркомісц|машиномісц|машиномест|паркомест)\p{L}*|garage|parking (?:space|spot|place)`,
      'gu',
    ),
  ],
];

/** What stands before a noun that is not itself on offer: a place nearby, a part, an exchange. */
const ASIDE =
  /(?:^|[^\p{L}])(?:в|у|во|до|від|от|біля|поруч|рядом|возле|з|із|с|со|на|під|под|для|та|і|и|є|есть|плюс|and|with|near|in|in a|in the|of the|the whole|to|for|or|або|или|чи|окрема|окремий|отдельная|новий|новый|цегляний|кирпичный|панельний|панельный|монолітний|монолитный|утеплений|сам|весь|the|our|has|including|всі|все|кожна|кожну|each|every|per|обмін на|обмен на)\s+(?:(?:[\p{L}-]+(?:ий|ый|ой|ому|ом|ій|их|ых)) )?$/u;

const OFFER = stem(
  String.raw`прода[мюєенжв]|зда[мюєно]|сда[мюен]|оренда|аренда|пропону|предлага|обмін|обмен|for sale|for rent|selling|to let|renting|rent out|offer`,
  'gu',
);

/** How far behind an offering word its object may stand, in characters. */
const OFFER_REACH = 60;

interface Mention {
  type: PropertyType;
  at: number;
}

const isCounted = (before: string): boolean => /[2-9] ?-? ?$|\d-$/u.test(before);

function mentions(text: string): Mention[] {
  const found: Mention[] = [];
  for (const [type, pattern] of NOUNS) {
    for (const match of text.matchAll(pattern)) {
      const before = text.slice(Math.max(0, match.index - 40), match.index);
      if (type === 'room' && isCounted(before)) continue;
      if (type !== 'apartment' && ASIDE.test(before)) continue;
      if (/(?:обмін|обмен|обміняю|обменяю|exchange)[^.\n]{0,20}(?:на|for) (?:\S+ )?$/u.test(before))
        continue;
      found.push({ type, at: match.index });
    }
  }
  return found.toSorted((a, b) => a.at - b.at);
}

function offered(text: string, found: Mention[]): PropertyType | null {
  for (const offer of text.matchAll(OFFER)) {
    const next = found.find(({ at }) => at >= offer.index && at <= offer.index + OFFER_REACH);
    if (next !== undefined) return next.type;
  }
  return found[0]?.type ?? null;
}

/**
 * The kind of property on offer: the one named right after an offering word, else the first one
 * named; the title before the description. Null when no property is named.
 */
export function readPropertyType(foldedTitle: string, folded: string): PropertyType | null {
  return offered(foldedTitle, mentions(foldedTitle)) ?? offered(folded, mentions(folded));
}
