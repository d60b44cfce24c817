import { type DealType, guessDealType, offersNightsAndMonths, offersSaleAndRent } from './kinds.ts';
import { compilePattern, compileTable, createPatternTester, parseTable } from './text.ts';

/** Spellings of currencies in folded text, longest first. "Умовні одиниці" means dollars in Ukrainian listings. */
const CURRENCIES = parseTable(String.raw`
USD: us\$|usd|\$|долар(?:ів|и|а|ах)?|доллар(?:ов|а|ы|ах)?|долл|дол|dollars?|bucks|бакс(?:ів|ов|и|ы|а)?|у\.? ?[ео](?![\p{L}])\.?|зелен(?:их|ых)
EUR: eur(?:os?)?|€|євро|евро
UAH: uah|₴|грн|гривень|гривні|гривня|гривна|гривен|гривны|гр(?!\p{L})\.?|hrn|hryvnias?|hryvnia
PLN: pln|zł|злотих|злотых
GBP: gbp|£
`);
const CURRENCY_SOURCE = CURRENCIES.map(([, forms]) => forms).join('|');
const CURRENCY_CODE_PATTERNS = CURRENCIES.map(([code, forms]): [string, RegExp] => [
  code,
  compilePattern(`^(?:${forms})$`),
]);

/** Number that may be a sum of money, with the words around it. */
type Amount = {
  value: number;
  currency: string | null;
  /** Whether the number has a multiplier ("85к", "15 тис"), which makes it a sum of money rather than a count. */
  isScaled: boolean;
  /** Clause before the number. */
  before: string;
  after: string;
};

/** Returns whether a number is a sum of money beyond doubt. */
const isMoney = ({ currency, isScaled }: Amount): boolean => currency !== null || isScaled;

const CONTEXT_LENGTH = 48;
/** Smallest "к" amount without a currency: "2к" is a flat with two rooms. */
const MIN_UNLABELLED_THOUSANDS = 7_000;

const NUMBER_SOURCE = String.raw`\d{1,3}(?:[ .,]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d{1,9}(?:[.,]\d{1,2}(?!\d))?`;
const THOUSAND_SOURCE = String.raw`тис(?:яч[аіуи]?)?\.?|т[иы]щ[аиіу]?|штук[аиу]?(?= ?(?:${CURRENCY_SOURCE}))|тыс(?:яч[аиу]?)?\.?|thousand|[кk](?![\p{L}])|т\.?(?= ?(?:${CURRENCY_SOURCE}))`;
const MILLION_SOURCE = String.raw`млн\.?|мільйон\p{L}*|миллион\p{L}*|million|mln|m(?= ?(?:usd|eur|uah|\$|€))`;

const AMOUNT_PATTERN = compilePattern(
  String.raw`(?<!\d)(?<!\d[.,/])(?:(?<prefix>(?<!\p{L})(?:${CURRENCY_SOURCE})) ?)?(?<number>${NUMBER_SOURCE})` +
    String.raw`(?: ?[-–] ?\d{1,3}(?:[ .,]?\d{3})*(?=[^\d/]))?` +
    String.raw` ?(?:(?<thousand>${THOUSAND_SOURCE})|(?<million>${MILLION_SOURCE})(?: (?<remainder>\d{1,3}) ?(?:тис|тыс)\p{L}*\.?)?)?` +
    String.raw`(?: ?(?<suffix>${CURRENCY_SOURCE})(?![\p{L}\d]))?`,
  'gu',
);

const parseCurrency = (form: string | undefined): string | null =>
  CURRENCY_CODE_PATTERNS.find(
    ([, pattern]) => form !== undefined && pattern.test(form.trim()),
  )?.[0] ?? null;

/** Parses "85 000" and "85.000" as thousands, and "1,2" as a decimal. Before a multiplier, all points are decimal. */
function parseAmount(numberText: string, factor: number, thousandsText: string): number {
  if (factor > 1) {
    return (
      Number(numberText.replaceAll(' ', '').replace(',', '.')) * factor +
      Number(thousandsText) * 1_000
    );
  }
  const groups = /^\d{1,3}(?:[ .,]\d{3})+/u.exec(numberText)?.[0] ?? '';
  return Number(
    (groups.replace(/[ .,]/gu, '') + numberText.slice(groups.length)).replace(',', '.'),
  );
}

/** Returns all numbers in folded text that may be sums of money, in text order. */
function readAmounts(foldedText: string): Amount[] {
  const amounts: Amount[] = [];
  let previousEnd = 0;
  for (const match of foldedText.matchAll(AMOUNT_PATTERN)) {
    const { prefix, number = '', thousand, million, remainder = '0', suffix } = match.groups ?? {};
    const end = match.index + match[0].length;
    const factor = thousand === undefined ? (million === undefined ? 1 : 1_000_000) : 1_000;
    const value = Math.round(parseAmount(number, factor, remainder) * 100) / 100;
    const currency = parseCurrency(suffix) ?? parseCurrency(prefix);
    if (thousand === 'к' && currency === null && value < MIN_UNLABELLED_THOUSANDS) continue;
    const start = Math.max(previousEnd, match.index - CONTEXT_LENGTH);
    amounts.push({
      value,
      currency,
      isScaled: factor > 1,
      before:
        foldedText
          .slice(start, match.index)
          .split(/[;\n!?+]|,(?!\d)|\. /u)
          .at(-1) ?? '',
      after: foldedText.slice(end, end + CONTEXT_LENGTH).split(/[;\n]/u, 1)[0] ?? '',
    });
    // A bare number does not separate a label from its amount: "депозит за 1 місяць 9000 грн".
    if (currency !== null || factor > 1) previousEnd = end;
  }
  return amounts;
}

/** Role of an amount. `new`: the price after a reduction. `other`: a cost other than the price. */
type AmountRole = 'new' | 'price' | 'other';

/** Phrases before a former price: "Ціна впала з". */
const PRICE_REDUCTION_SOURCE = String.raw`(?:знижен|снижен|знизил|снизил|впал|упал|зменшен|reduced|dropped|lowered)\p{L}* (?:ціни |ціну |цены |цену |цена )?(?:з|із|с|from)(?!\p{L})`;

/** Labels before an amount, by role. The label nearest to the amount counts. */
const ROLE_LABELS = compileTable<AmountRole>(String.raw`
new: (?:->|=>|>>|[→⇒➔➡]\uFE0F?) ?$|тепер|теперь|зараз|сейчас|now|стало|нова ціна|новая цена|знижен\p{L}* (?:ціни )?до|снижен\p{L}* (?:цены )?до|reduced to|down to|${PRICE_REDUCTION_SOURCE} \d[\d .,]{0,12} ?(?:\$|грн|usd)? ?(?:to|до)|new price|актуальн
price: цін[аиіуо]|цен[аыеу]|ценой|price|вартіст|вартост|стоимост|оренд|аренд|rent(?!ed)|asking|плат[аи](?!\p{L})|прошу|хоч[уе]м?|відда(?:м|є|д)|отда(?:м|е|д)|всього|всего лишь|за все|only|just|бюджет
other: депозит|заста[вн]|завдат|залог|задат|deposit|гаранті|комун|коммун|кварплат|світл|свет(?!л)|електр|электр|опален|отоплен|газ(?!\p{L})|вод[аиу](?!\p{L})|інтернет|интернет|internet|utilit|bills|осбб|осмд|heating|electricity
other: комісі|комисси|commission|fee(?:s)?(?!\p{L})|послуг|услуг|рієлтор|риелтор|риэлтор|agency|прибиран|уборк|cleaning|консьєрж|консьерж|охорон
other: було|была|было|був(?!\p{L})|был(?!\p{L})|раніше|ранее|раньше|was(?!\p{L})|were|formerly|previously|old price|стар[аоы]|замість|вместо|instead|(?:з|по|від)?робили|(?:с|по)?делали|витратил|потратил|купува|купил|покупал|придбал|bought|paid(?!\p{L})|spent|${PRICE_REDUCTION_SOURCE}
other: знижк|скидк|discount|торг|уступ|доплат|внес|взнос|аванс|розтерм|розстроч|рассроч|installment|instalment|down payment|курс|rate(?!\p{L})
other: паркінг|паркинг|комор[аиу]|кладов|parking|storage|вклад|влож|інвест|ремонт\p{L}* (?:за|на|кошт|обош|обійш)|invested|дохід|доход|прибут|income|yield|зарплат|salary|штраф|fine(?!\p{L})|податк|налог|tax(?!i)|меблі за|мебель за|(?:за|per) (?:1 |один |одну )?(?:м ?2|м ?кв|кв(?!\p{L})|метр(?!о)|сотк|m ?2|sq)
`);

const AREA_UNIT_SOURCE = String.raw`м ?2|м\.? ?кв|кв\.? ?м(?:етр\p{L}*)?|кв(?!\p{L})|квадрат(?!ур)\p{L}*|метр(?!о)\p{L}*|м(?!\p{L})|m ?2|sq\.? ?m\p{L}*|square met\p{L}+|met(?:er|re)|metr(?!o)\p{L}*`;

/** Tests the text before or after an amount against the patterns with the given name. */
const matchesPattern = createPatternTester(String.raw`
# Text after an amount that is not the price: per square metre, hour or year; an additional cost; a retracted amount.
notPrice: ^\.?,? ?(?:/|за|per|a) ?(?:1 ?|один ?|одну ?)?(?:м ?2|м(?!\p{L})|кв(?!арт)|метр(?!о)|m ?2|sq|сотк|квадрат|годин|час(?!т)|hour|рік|год(?!и)|year|парк)
notPrice: ^ ?(?:- ?)?(?:(?:за|на) комун|(?:комунальн|коммунальн|застав|депозит|deposit|завдат|залог|комісі|комисс|commission|agency|cleaning|fee|знижк|скидк|discount|utilities|for utilities|парк|штраф|розтерм|внес)(?!\p{L}* (?:включ|в цін))(?!\p{L}*[^,.;]{0,14}\d))
notPrice: ^ ?\?
notPrice: ^ ?%
monthly: ^\.?,? ?(?:\+ ?[\p{L}.]+ ?)?(?:/|в|на|за|у|per|a|each)? ?(?:міс|мес|mo(?:nth)?(?!\p{L})|pcm|monthly|щомісяч|ежемесяч|m(?!\p{L}))
daily: ^\.?,? ?(?:/|в|на|за|у|per|a)? ?(?:доб|сут|ніч|ноч|night|day|день|daily)
perArea: ^\.?,? ?(?:/|за|по|per|a|x) ?(?:1 ?|один ?)?(?:${AREA_UNIT_SOURCE})
# Text before a price per square metre: "ціна за м2: 900 $", "метр - 820 євро".
perAreaBefore: (?:(?:за|per) ?(?:1 ?|один ?)?(?:${AREA_UNIT_SOURCE})|\<метр) ?[:=-]? ?$
# Text before the price per square metre of something else.
notOffer: ремонт|бригад|опален|отоплен|ринк|рынк|market|чинш|czynsz|експлуатац|эксплуатац|внесок|взнос|opex
# Text after a number that counts something other than money.
measure: ^ ?-? ?(?:м(?!\p{L})|м ?2|кв(?!арт)|m ?2|sq|сот|км|km|хв|мин|min|кімн|комн|room|поверх|пов|этаж|эт|рок|рік|р\.|год|лет|year|люд|чел|person|people|guest|гост|міс|мес|доб|сут|шт|х(?!\p{L})|:\d|bed|br)
# Text before a price per night.
dailyBefore: \<(?:подобов|посуточн|за (?:добу|ніч)|за (?:сутки|ночь)|per night|nightly)
# Text before the rent that a current tenant pays, in a listing for sale.
letNow: \<(?:здан[аоі]|сдан[аоы]|здаєт|сдает|орендар|арендатор|rented|tenant|наразі зда)
`);

const MIN_PRICE: Record<DealType, number> = { sale: 500, rent: 30, daily_rent: 5 };
/** Minimum prices without a currency, with and without a label. */
const MIN_LABELLED_PRICE = 100;
const MIN_UNLABELLED_PRICE = 1_000;
const MAX_UNLABELLED_PRICE = 100_000_000;

/** Returns the role that the label nearest to an amount gives it. */
function findRole(before: string): AmountRole | undefined {
  const labels = ROLE_LABELS.flatMap(([role, pattern]) =>
    Array.from(before.matchAll(pattern), (match) => ({ role, end: match.index + match[0].length })),
  );
  return labels.toSorted((a, b) => a.end - b.end).at(-1)?.role;
}

/** Scores how likely an amount is the price. 0 means that it is not a price. */
function scoreAmount(amount: Amount, dealType: DealType | null): number {
  const { value, before, after } = amount;
  const role = findRole(before);
  const isMonthly = matchesPattern('monthly', after);
  const isDaily = matchesPattern('daily', after) || matchesPattern('dailyBefore', before);
  const isOfOtherDeal =
    dealType === 'sale'
      ? isMonthly || matchesPattern('letNow', before)
      : dealType === 'rent'
        ? isDaily
        : isMonthly;
  if (role === 'other' || (dealType !== null && isOfOtherDeal)) return 0;
  if (value < MIN_PRICE[dealType ?? 'daily_rent'] || matchesPattern('notPrice', after)) return 0;
  if (isMoney(amount)) {
    const roleBonus = role === 'new' ? 6 : role === 'price' ? 2 : 0;
    return 4 + roleBonus + (isMonthly || isDaily ? 3 : 0);
  }
  // A number without a currency is a price only if a label, a period or its magnitude suggests one.
  const isYear = value >= 1900 && value <= 2035;
  if (isMonthly || isDaily) return value >= MIN_LABELLED_PRICE ? 3 : 0;
  if (matchesPattern('measure', after)) return 0;
  if (role !== undefined)
    return value >= MIN_LABELLED_PRICE && (role === 'price' || !isYear) ? 3 : 0;
  const isRound =
    value >= MIN_UNLABELLED_PRICE && value <= MAX_UNLABELLED_PRICE && value % 50 === 0;
  return isRound && !isYear && dealType !== null && !/[№#/-] ?$/u.test(before) ? 1 : 0;
}

export type Price = { price: number | null; price_per_m2: number | null; currency: string | null };

/** Returns the amount that is the price per square metre: the first one, or the one after a reduction. */
function findPricePerArea(amounts: readonly Amount[]): Amount | undefined {
  const candidates = amounts.filter(isMoney).flatMap((amount) => {
    const { before, after } = amount;
    const isNamedBefore = matchesPattern('perAreaBefore', before);
    if (!isNamedBefore && !matchesPattern('perArea', after)) return [];
    const role = isNamedBefore ? undefined : findRole(before);
    return role === 'other' || matchesPattern('notOffer', before) ? [] : [{ amount, role }];
  });
  return (candidates.find(({ role }) => role === 'new') ?? candidates[0])?.amount;
}

/**
 * Reads the asking price and the price per square metre. Ignores deposits, utilities, commissions and former prices. The
 * amount with the highest score wins; among equal scores, the first one.
 * @param knownPrice Price in the payload. The text may contain its currency.
 */
export function readPrice(
  foldedText: string,
  { dealType, knownPrice }: { dealType: DealType | null; knownPrice: number | null | undefined },
): Price {
  const amounts = readAmounts(foldedText);
  const scoredAmounts = amounts.map((amount) => ({
    ...amount,
    score: scoreAmount(amount, dealType),
  }));
  const [bestAmount] = scoredAmounts
    .filter(({ score }) => score > 0)
    .toSorted((a, b) => b.score - a.score);
  const price = knownPrice ?? bestAmount?.value;
  const pricePerArea = findPricePerArea(amounts);
  if (price === undefined) {
    const { value = null, currency = null } = pricePerArea ?? {};
    return { price: null, price_per_m2: value, currency };
  }
  const currency = amounts.find((amount) => amount.value === price && amount.currency)?.currency;
  const isSameCurrency = pricePerArea?.currency === (currency ?? pricePerArea?.currency);
  return {
    price,
    price_per_m2: isSameCurrency ? (pricePerArea?.value ?? null) : null,
    currency: currency ?? guessCurrency(price, dealType),
  };
}

/** Beginning of a list item: "1) ", "а) ", or a line with a bullet and a price. */
const LIST_ITEM_PATTERN = compilePattern(
  String.raw`(?:^|[\s(])(\d|[а-я])\) |\n ?[-*•▪✅] ?(?=[^\n]{0,80}\d{3})`,
  'gu',
);
/** Numbers of rooms and areas, which distinguish the properties in one text. */
const PROPERTY_PATTERN = compilePattern(
  String.raw`(?<![\d.,/])[1-6] ?-? ?(?:х |ти )?(?:к(?!\p{L})|кк|кімн|комн|кім|room|bed|br(?!\p{L}))|(?:одн|двох?|трь?ох|трех)(?:комнатн|кімнатн|ушк|местн|місн)|(?<![\d.,])\d{1,4}(?:[.,]\d+)? ?(?:м ?2|кв\.? ?м|м(?!\p{L})|sqm|соток)`,
  'gu',
);

/**
 * Counts the offers in a text: the items of a list, the prices of several properties, or two deals. Returns null for one
 * offer.
 */
export function countOffers(foldedText: string): number | null {
  const prices = readAmounts(foldedText).filter(
    (amount) =>
      isMoney(amount) && scoreAmount(amount, null) > 0 && !matchesPattern('letNow', amount.before),
  );
  if (prices.length < 2) return null;
  const itemCount = [...foldedText.matchAll(LIST_ITEM_PATTERN)].length;
  if (itemCount > 1 && itemCount <= prices.length) return itemCount;
  const deals = new Set(prices.map(({ value, currency }) => guessDealType(value, currency)));
  if (offersSaleAndRent(foldedText) && deals.has('sale') && deals.has('rent')) return 2;
  const values = prices.map(({ value }) => value);
  if (Math.max(...values) >= 4 * Math.min(...values))
    return offersNightsAndMonths(foldedText) ? 2 : null;
  const propertyCount = new Set(foldedText.match(PROPERTY_PATTERN)).size;
  const isPriceList = new Set(values).size === values.length && values.length <= propertyCount;
  return isPriceList ? values.length : null;
}

/** Rents without a currency are in hryvnias from these amounts up. */
const MIN_HRYVNIA_RENT: Record<string, number> = { rent: 3_000, daily_rent: 300 };

const guessCurrency = (price: number, dealType: DealType | null): string | null =>
  price >= (MIN_HRYVNIA_RENT[dealType ?? ''] ?? Infinity) ? 'UAH' : null;
