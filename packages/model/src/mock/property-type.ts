import { rule, stem, whole } from './patterns.ts';
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
      String.raw`(?:квартир|кватир|квартер|кв[ао]ртир|квартирк|апартамент|апартмент|апарт|студі|студи|смарт|гостинк|полуторк|полторушк|півторк|півторушк|малосімейк|малосемейк|пентхаус|пентхауз)\p{L}*|(?:одн|дв|тр|четвер|чотир)[уоеьи]{0,2}шк[аиуо]й?|трьошк[ау]|трешк[ау]|однокімнатн\p{L}*|\d ?-? ?(?:х |х-|х|ох|ьох|ти|и|но)? ?-?(?:(?:кімнатн|комнатн|кімн|комн)\p{L}*|кім|ком)\.? ?(?:кв)?|\d ?-? ?х? ?[кk]\.? ?(?:кв|кварт\p{L}*)|(?<!\d[.,])\dк{1,2}(?! ?\$| ?грн| ?у| ?usd)|flats?|apartments?|apts?|appartments?|apartement|condo|studio|penthouse|loft|\d ?-? ?(?:br|bdr|bed|bedrooms?)`,
      'gu',
    ),
  ],
  [
    'house',
    whole(
      String.raw`будинок|будиночок|дім|дом|домик|дач(?:а|у|і|и|ка|ку)|хат[аиу]|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:будинку|дома|будиночка|домика)|(?:половин|частин|част|пів|пол)\p{L}* ?(?:будинку|дома)|півбудинку|полдома|(?:котедж|коттедж|таунхаус|таунхауз|дуплекс|вілл|вилл|особняк|садиб|усадьб|маєт)\p{L}*|house|cottage|townhouse|villa|duplex|bungalow`,
      'gu',
    ),
  ],
  [
    'room',
    whole(
      String.raw`(?:кімнат[ауи]|комнат[ауы]|койко ?-?\p{L}+|ліжко[ -]?місц\p{L}|міс(?:це|ця) (?:в|у) кімнаті|мест[оа] в комнате|підселення|подселение)|(?<!living |dining |bath|bed|bath |bed |laundry |storage |one )room(?! (?:apartment|flat|house))`,
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
      String.raw`офіс|офис|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:офіс[уа]|офиса|склад[уа]|магазин[уа]|салон[уа]|ангар[уа]|готелю|отеля|будівлі|здания|ресторан[уа])|(?:приміщенн|помещени)\p{L}*|магазин|склад|кафе|кавярня|ресторан|салон|шоурум|готель|отель|гостиниц\p{L}|хостел|пансіонат|пансионат|баз[ауи] (?:відпочинку|отдыха)|будівл[яю]|здание|(?:комерційн|коммерческ)\p{L}*|ангар|office|retail|warehouse|shop|commercial|showroom|workshop|coworking`,
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
const ASIDE = rule(
  String.raw`(?:^|[^\p{L}])(?:в|у|во|до|від|от|біля|поруч|рядом|возле|з|із|с|со|на|під|под|для|та|і|и|є|есть|плюс|and|with|near|in|in a|in the|of the|the whole|to|for|or|або|или|чи|окрема|окремий|отдельная|новий|новый|цегляний|кирпичный|панельний|панельный|монолітний|монолитный|утеплений|сам|весь|the|our|has|including|всі|все|кожна|кожну|each|every|per|обмін на|обмен на)\s+(?:(?:[\p{L}-]+(?:ий|ый|ой|ому|ом|ій|их|ых)) )?$`,
);

const OFFER = stem(
  String.raw`прода[мюєенжв]|зда[мюєно]|сда[мюен]|оренда|аренда|пропону|предлага|обмін|обмен|for sale|for rent|selling|to let|renting|rent out|offer`,
  'gu',
);

/** How far behind an offering word its object may stand, in characters. */
const OFFER_REACH = 60;

type Mention = {
  type: PropertyType;
  at: number;
};

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

/** English offers follow their object, "room for rent in a flat"; the others may stand anywhere. */
const FOLLOWING = /^(?:for (?:sale|rent)|to let)/u;
const NO_WORD = rule(String.raw`[^\p{L} -]`);
/** A full stop before a short word ends an abbreviation more often than a sentence. */
const SENTENCE_END = rule(String.raw`[!?\n;]|\.(?= \p{L}{4})`, 'gu');

function offered(text: string, found: Mention[]): PropertyType | null {
  const ends = [...text.matchAll(SENTENCE_END)].map(({ index }) => index);
  for (const offer of text.matchAll(OFFER)) {
    const start = ends.findLast((at) => at < offer.index) ?? 0;
    const end = ends.find((at) => at > offer.index) ?? text.length;
    const within = (from: number, to: number): Mention | undefined =>
      found.find(({ at }) => at >= from && at <= to);
    const before = within(start, offer.index - 1);
    const after = within(offer.index, Math.min(end, offer.index + OFFER_REACH));
    const [nearer, other] = FOLLOWING.test(text.slice(offer.index, offer.index + 10))
      ? [before, after]
      : [after, before];
    const object = nearer ?? other ?? within(offer.index, offer.index + OFFER_REACH);
    if (object === undefined) continue;
    const home = found.find(({ type, at }) => type === 'apartment' && at < object.at);
    const isDirect = !NO_WORD.test(text.slice(offer.index, object.at));
    // "Однушка, продам срочно. Дом кирпичный": the house only holds the flat.
    return object.type === 'house' && home !== undefined && !isDirect ? home.type : object.type;
  }
  return found[0]?.type ?? null;
}

/**
 * The kind of property on offer: the one named in the sentence of an offering word, behind it rather
 * than ahead of it (in English the other way round), else the first one named; the title before the
 * description. Null when no property is named.
 */
export function readPropertyType(foldedTitle: string, folded: string): PropertyType | null {
  return offered(foldedTitle, mentions(foldedTitle)) ?? offered(folded, mentions(folded));
}
