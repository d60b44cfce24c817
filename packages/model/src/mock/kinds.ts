import {
  compileTable,
  compilePattern,
  compileStems,
  createPatternTester,
  compileWholeWords,
} from './text.ts';

/** Sale, rent by the month, or rent by the night (Contract 4, PayloadSchema). */
export type DealType = 'sale' | 'rent' | 'daily_rent';

/** The kind of property offered. */
export type PropertyType = 'apartment' | 'house' | 'room' | 'land' | 'commercial' | 'garage';

/** Keywords that offer a deal explicitly. The first match in a text determines the deal. */
const OFFERS = compileTable<'sale' | 'rent'>(
  String.raw`
sale: прода(?:м|ю|є|єця|єтся|еться|ємо|емо|ем|ються|ється|еться|ется|ются|ж|жа|жу|жи|же|єм|ємся|но|дим)|на продаж|пропонується до продажу|обмін|обміняю|обміняємо|обмен|обменяю|меняю|(?:for|on) sale|selling|sale|to sell|we sell
rent: зда(?:м|ю|єця|еця|єтся|ється|еться|ємо|емо|єм|ча|но|ються|сться)|сда(?:м|ю|ется|ем|ется|ча|ются|ётся|єтся|єм|еться)|оренда|оренду|оренди|оренді|аренда|аренду|аренды|аренде|(?:for|to) (?:rent|let)|rent(?:al|als|ing)?|to let|lease|long[- ]term|sublet(?:ting)?|довгострок\p{L}+|довготривал\p{L}+|долгосроч\p{L}+|(?:на )?(?:тривалий термін|длительный срок)|помісячно|помесячно
`,
  compileWholeWords,
);

const DEAL = String.raw`(?:оренд|аренд|здач|сдач|прода|обмін|обмен|rent|sale|lease)\p{L}*`;
const AND = String.raw`(?:[,/]| (?:або|чи|или|or|та|і|и|and) )`;
const OFFERED = String.raw`(?:(?:for |to )?(?:rent|sale|let)|${DEAL}|(?:прода|зда|сда|sell)\p{L}*)`;

const says = createPatternTester(String.raw`
daily: \<(?:подобов\p{L}*|посуточн\p{L}*|щодоб\p{L}*|на добу|за добу|в добу|доба|на сутки|за сутки|в сутки|сутки|сут|per night|nightly|a night|by the night|(?<=/ ?)(?:night|day|ніч|ночь|добу|сут)|per day|daily (?:rent|rental|let)|short[- ](?:term|stays?|let|lets)|за ніч|на ніч|за ночь|на ночь|почасово)\>
monthly: \<(?:(?<=/ ?)(?:міс|мес|mo|month)|(?:на|в|за|у|per|a) (?:місяць|міс|месяц|мес|month)|pcm|monthly|щомісяч\p{L}*|ежемесячн\p{L}*)\>
# The property is sold with its current tenant, so the words for rent are not an offer.
letAlready: \<(?:(?:з|із|с) (?:орендар\p{L}*|арендатор\p{L}*)|with (?:a )?(?:sitting )?tenants?)\>
# "4800 + комуналка": only tenants pay extra for utilities.
plusUtilities: (?:\+|плюс|plus) ?(?:комун|коммун|ком(?!\p{L})|к/п|світло|свет(?!л)|лічильник|счетчик|utilit|bills)
# Payment terms that only a sale has.
paidForGood: \<(?:розстроч|розтерм|рассроч|іпотек|ипотек|єоселя|еоселя|mortgage|instal?lments?)
# "Здам або продам", "for sale / rent": the text offers both deals, so the deal of a price is ambiguous.
either: \<(?:${OFFERED} ?${AND} ?${OFFERED})\>
# Text before a noun that is not on offer: a place nearby, a part of the property, or an exchange.
aside: (?:^|[^\p{L}])(?:в|у|во|до|від|от|біля|поруч|рядом|возле|з|із|с|со|на|під|под|для|та|і|и|є|есть|плюс|and|with|near|in|in a|in the|of the|the whole|to|for|or|або|или|чи|окрема|окремий|отдельная|новий|новый|цегляний|кирпичный|панельний|панельный|монолітний|монолитный|утеплений|сам|весь|the|our|has|including|всі|все|кожна|кожну|each|every|per|обмін на|обмен на)\s+(?:(?:[\p{L}-]+(?:ий|ый|ой|ому|ом|ій|их|ых)) )?$
exchanged: (?:обмін|обмен|обміняю|обменяю|exchange)[^.\n]{0,20}(?:на|for) (?:\S+ )?$
# Text before "кімната" that counts the rooms of a flat.
counted: [2-9] ?-? ?$|\d-$
# English offer words that follow their object: "room for rent in a flat".
following: ^(?:for (?:sale|rent)|to let)
notAWord: [^\p{L} -]
`);

const NOT_DAILY = compileWholeWords(
  String.raw`(?:не|без|no|not|крім|кроме|окрім) (?:здаю |здаємо |сдаю |сдаем |for |a )?(?:подобов\p{L}*|посуточн\p{L}*|на добу|на сутки|daily|short[- ]\p{L}+|nightly|почасово)|(?:подобово|посуточно|почасово) (?:не|ні|нет|не пропонувати)`,
  'gu',
);

/** Deals that the text rules out: "оренда та обмін не цікавлять", "в оренду не здається", "not for rent". */
const DENIED = compileWholeWords(
  String.raw`${DEAL}(?: ?${AND} ?${DEAL})? (?:- |\p{L}+ )?(?:не|is not|are not|not) (?:an )?(?:цікав|интерес|розгляда|рассматрива|пропон|предлаг|потріб|нуж|interest|consider|offered|possible|available|option)\p{L}*|(?:в|у|на) ${DEAL} не (?:зда|сда|прода)\p{L}*|(?:не|без|not for|not|no) (?:для |на |в )?(?:${DEAL}|зда[юєм]\p{L}*|сда[юе]\p{L}*)`,
  'gu',
);

/** Completion dates of buildings, such as "здача 3 квартал 2026". Here "здача" does not mean rent. */
const COMPLETION = compilePattern(
  String.raw`(?<!\p{L})[зс]да\p{L}+[ :,-]{1,3}[^.;\n]{0,30}?(?:[еэ]ксплуатац|(?:\d|[iі]{1,3}|iv|перш|друг|трет|четверт|перв|втор)\p{L}{0,4}-? ?\p{L}{0,3} ?(?:квартал|кв\.? ?(?=20\d\d)))|(?<!\p{L})[зс]дач\p{L}*[ :,-]{1,3}(?!\p{L} (?:оренд|аренд))[^.;\n]{0,30}?(?:\d\.)?20[2-4]\d(?!\d| ?(?:\$|€|грн|uah|usd|eur|у\.? ?е|м|m))`,
  'gu',
);

/** Returns the deals that a folded text offers, in the order of their mentions. */
function findOfferedDeals(text: string): ('sale' | 'rent')[] {
  const positive = text.replace(DENIED, ' ').replace(COMPLETION, ' ');
  return OFFERS.flatMap(([deal, pattern]) =>
    [...positive.matchAll(pattern)].map(({ index }) => ({ deal, at: index })),
  )
    .toSorted((a, b) => a.at - b.at)
    .map(({ deal }) => deal);
}

/** Returns whether a folded text offers both sale and rent in one phrase. */
export const offersBothDeals = (text: string): boolean => says('either', text);

/** Returns the deal that a folded text offers last, or null if it offers none. */
export const findLastDeal = (text: string): DealType | null =>
  findOfferedDeals(text).at(-1) ?? null;

/**
 * Reads the deal type from the words of a text, or returns null. The title takes precedence. Words such as "подобово"
 * change rent to daily rent, unless the text denies them.
 */
export function readDealType(foldedTitle: string, folded: string): DealType | null {
  const offer = findOfferedDeals(foldedTitle)[0] ?? findOfferedDeals(folded)[0] ?? null;
  if (offer === 'sale') return 'sale';
  if (says('daily', folded.replace(NOT_DAILY, ' '))) return 'daily_rent';
  if (offer !== null) return offer;
  if (says('letAlready', folded)) return 'sale';
  if (says('monthly', folded) || says('plusUtilities', folded)) return 'rent';
  return says('paidForGood', folded) ? 'sale' : null;
}

/** Price bounds by currency: lower prices are monthly rents, higher ones are sales. Prices between are ambiguous. */
const PRICE_BOUNDS: Record<string, { rentBelow: number; saleFrom: number }> = {
  USD: { rentBelow: 4_000, saleFrom: 8_000 },
  EUR: { rentBelow: 4_000, saleFrom: 8_000 },
  UAH: { rentBelow: 90_000, saleFrom: 250_000 },
};

/** Guesses the deal type from a price and its currency, or returns null if the price is ambiguous. */
export function guessDealType(price: number | null, currency: string | null): DealType | null {
  const telling = PRICE_BOUNDS[currency ?? ''];
  if (price === null || telling === undefined) return null;
  if (price >= telling.saleFrom) return 'sale';
  return price < telling.rentBelow ? 'rent' : null;
}

/**
 * Nouns in the cases that an offered property takes: nominative, accusative, and genitive after "продаж" and "оренда".
 * The locative ("у новому будинку") is excluded, because it describes the building of a flat.
 */
const NOUNS = compileTable<PropertyType>(
  String.raw`
apartment: (?:квартир|кватир|квартер|кв[ао]ртир|квартирк|апартамент|апартмент|апарт|студі|студи|смарт|гостинк|полуторк|полторушк|півторк|півторушк|малосімейк|малосемейк|пентхаус|пентхауз)\p{L}*|(?:одн|дв|тр|четвер|чотир)[уоеьи]{0,2}шк[аиуо]й?|трьошк[ау]|трешк[ау]|однокімнатн\p{L}*|\d ?-? ?(?:х |х-|х|ох|ьох|ти|и|но)? ?-?(?:(?:кімнатн|комнатн|кімн|комн)\p{L}*|кім|ком)\.? ?(?:кв)?|\d ?-? ?х? ?[кk]\.? ?(?:кв|кварт\p{L}*)|(?<!\d[.,])\dк{1,2}(?! ?\$| ?грн| ?у| ?usd)|flats?|apartments?|apts?|appartments?|apartement|condo|studio|penthouse|loft|\d ?-? ?(?:br|bdr|bed|bedrooms?)
house: будинок|будиночок|дім|дом|домик|дач(?:а|у|і|и|ка|ку)|хат[аиу]|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:будинку|дома|будиночка|домика)|(?:половин|частин|част|пів|пол)\p{L}* ?(?:будинку|дома)|півбудинку|полдома|(?:котедж|коттедж|таунхаус|таунхауз|дуплекс|вілл|вилл|особняк|садиб|усадьб|маєт)\p{L}*|house|cottage|townhouse|villa|duplex|bungalow
room: (?:кімнат[ауи]|комнат[ауы]|койко ?-?\p{L}+|ліжко[ -]?місц\p{L}|міс(?:це|ця) (?:в|у) кімнаті|мест[оа] в комнате|підселення|подселение)|(?<!living |dining |bath|bed|bath |bed |laundry |storage |one )room(?! (?:apartment|flat|house))
land: (?:ділянк|участк|землі|земл)\p{L}*|участок|земельн\p{L}*|plot|land plot|plot of land|(?<!no )land|acreage
commercial: офіс|офис|(?:продаж|продажа|оренда|аренда)\p{L}* (?:\p{L}+ )?(?:офіс[уа]|офиса|склад[уа]|магазин[уа]|салон[уа]|ангар[уа]|готелю|отеля|будівлі|здания|ресторан[уа])|(?:приміщенн|помещени)\p{L}*|магазин|склад|кафе|кавярня|ресторан|салон|шоурум|готель|отель|гостиниц\p{L}|хостел|пансіонат|пансионат|баз[ауи] (?:відпочинку|отдыха)|будівл[яю]|здание|(?:комерційн|коммерческ)\p{L}*|ангар|office|retail|warehouse|shop|commercial|showroom|workshop|coworking
garage: гараж|гаража|гаражний|гаражный|(?:паркомісц|машиномісц|машиномест|паркомест)\p{L}*|garage|parking (?:space|spot|place)
`,
  compileWholeWords,
);

const OFFER = compileStems(
  String.raw`прода[мюєенжв]|зда[мюєно]|сда[мюен]|оренда|аренда|пропону|предлага|обмін|обмен|for sale|for rent|selling|to let|renting|rent out|offer`,
  'gu',
);

/** Maximum distance from an offer word to the noun after it, in characters. */
const MAX_OBJECT_DISTANCE = 60;

type Mention = { type: PropertyType; at: number };

function findMentions(text: string): Mention[] {
  const found: Mention[] = [];
  for (const [type, pattern] of NOUNS) {
    for (const { index: at } of text.matchAll(pattern)) {
      const before = text.slice(Math.max(0, at - 40), at);
      if (type === 'room' && says('counted', before)) continue;
      if (type !== 'apartment' && says('aside', before)) continue;
      if (!says('exchanged', before)) found.push({ type, at });
    }
  }
  return found.toSorted((a, b) => a.at - b.at);
}

/** Sentence ends. A full stop before a short word usually belongs to an abbreviation, so it does not count. */
const SENTENCE_END = compilePattern(String.raw`[!?\n;]|\.(?= \p{L}{4})`, 'gu');

function findOfferedType(text: string): PropertyType | null {
  const found = findMentions(text);
  const ends = [...text.matchAll(SENTENCE_END)].map(({ index }) => index);
  const within = (from: number, to: number) => found.find(({ at }) => at >= from && at <= to);
  for (const { index } of text.matchAll(OFFER)) {
    const start = ends.findLast((at) => at < index) ?? 0;
    const end = ends.find((at) => at > index) ?? text.length;
    const before = within(start, index - 1);
    const after = within(index, Math.min(end, index + MAX_OBJECT_DISTANCE));
    const isFollowing = says('following', text.slice(index, index + 10));
    const [nearer, other] = isFollowing ? [before, after] : [after, before];
    const object = nearer ?? other ?? within(index, index + MAX_OBJECT_DISTANCE);
    if (object === undefined) continue;
    const home = found.find(({ type, at }) => type === 'apartment' && at < object.at);
    const isDirect = !says('notAWord', text.slice(index, object.at));
    // "Однушка, продам срочно. Дом кирпичный": the house is the building of the flat.
    return object.type === 'house' && home !== undefined && !isDirect ? home.type : object.type;
  }
  return found[0]?.type ?? null;
}

/**
 * Reads the type of the offered property. Prefers a noun in the same sentence as an offer word: first after the word,
 * then before it (the reverse for "for sale"). Falls back to the first noun. The title takes precedence.
 */
export function readPropertyType(foldedTitle: string, folded: string): PropertyType | null {
  return findOfferedType(foldedTitle) ?? findOfferedType(folded);
}
