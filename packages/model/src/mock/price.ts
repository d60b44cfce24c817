import { compileTable, parseTable, compilePattern, createPatternTester } from './text.ts';
import {
  type DealType,
  guessDealType,
  findLastDeal,
  offersBothDeals,
  type PropertyType,
} from './kinds.ts';

/** A price and its currency (ISO 4217). */
export type Price = { price: number | null; currency: string | null };

/** Spellings of currencies in folded text, longest first. "Умовні одиниці" means dollars in Ukrainian listings. */
const CURRENCIES = parseTable(String.raw`
USD: us\$|usd|\$|долар(?:ів|и|а|ах)?|доллар(?:ов|а|ы|ах)?|долл|дол|dollars?|bucks|бакс(?:ів|ов|и|ы|а)?|у\.? ?[ео](?![\p{L}])\.?|зелен(?:их|ых)
EUR: eur(?:os?)?|€|євро|евро
UAH: uah|₴|грн|гривень|гривні|гривня|гривна|гривен|гривны|гр(?!\p{L})\.?|hrn|hryvnias?|hryvnia
PLN: pln|zł|злотих|злотых
GBP: gbp|£
`);
const CURRENCY = CURRENCIES.map(([, forms]) => forms).join('|');
const CODES = CURRENCIES.map(([code, forms]): [string, RegExp] => [
  code,
  compilePattern(`^(?:${forms})$`),
]);

/** Returns the ISO 4217 code of a spelling of a currency, or null. */
function parseCurrency(form: string | undefined): string | null {
  return CODES.find(([, pattern]) => form !== undefined && pattern.test(form))?.[0] ?? null;
}

/** A number in a text that may be a sum of money, with the words around it. */
type Amount = {
  value: number;
  /** ISO 4217 code. Null if the text names no currency. */
  currency: string | null;
  /** Whether the number has a multiplier ("85к", "15 тис"), which makes it a sum of money rather than a count. */
  scaled: boolean;
  /** Text before the number, back to the previous amount or line. */
  before: string;
  /** Text after the number, up to the next semicolon or line end. */
  after: string;
  at: number;
};

const CONTEXT_LENGTH = 48;
const MIN_THOUSANDS = 7_000;

const NUMBER = String.raw`\d{1,3}(?:[ .,]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d{1,9}(?:[.,]\d{1,2}(?!\d))?`;
const THOUSAND = String.raw`тис(?:яч[аіуи]?)?\.?|т[иы]щ[аиіу]?|штук[аиу]?(?= ?(?:${CURRENCY}))|тыс(?:яч[аиу]?)?\.?|thousand|[кk](?![\p{L}])|т\.?(?= ?(?:${CURRENCY}))`;
const MILLION = String.raw`млн\.?|мільйон\p{L}*|миллион\p{L}*|million|mln|m(?= ?(?:usd|eur|uah|\$|€))`;

const AMOUNT = compilePattern(
  String.raw`(?<!\d)(?<!\d[.,/])(?:(?<pre>(?<!\p{L})(?:${CURRENCY})) ?)?(?<number>${NUMBER})` +
    String.raw`(?: ?[-–] ?\d{1,3}(?:[ .,]?\d{3})*(?=[^\d/]))?` +
    String.raw` ?(?:(?<thousand>${THOUSAND})|(?<million>${MILLION})(?: (?<rest>\d{1,3}) ?(?:тис|тыс)\p{L}*\.?)?)?` +
    String.raw`(?: ?(?<post>${CURRENCY})(?![\p{L}\d]))?`,
  'gu',
);

/** Parses a number: "85 000", "85.000" and "85,000" have thousands separators, "1,2" and "65.5" are decimals. */
function parseNumber(written: string): number {
  const grouped = /^\d{1,3}(?:[ .,]\d{3})+/u.exec(written)?.[0] ?? '';
  const rest = written.slice(grouped.length);
  const whole = grouped.replace(/[ .,]/gu, '');
  return Number((whole + rest).replace(',', '.'));
}

/** Parses a number before a multiplier, where a point or comma is always decimal: "1.200 млн". */
function parseScaled(written: string): number {
  return Number(written.replaceAll(' ', '').replace(',', '.'));
}

/**
 * Returns all numbers of a folded text that may be sums of money, in the order of the text. They include numbers
 * without a currency and a multiplier, because a label such as "ціна" can make them prices.
 */
function readAmounts(folded: string): Amount[] {
  const amounts: Amount[] = [];
  let previousEnd = 0;
  for (const match of folded.matchAll(AMOUNT)) {
    const { pre, number = '', thousand, million, rest = '0', post } = match.groups ?? {};
    const end = match.index + match[0].length;
    const factor = thousand === undefined ? (million === undefined ? 1 : 1_000_000) : 1_000;
    const value =
      factor === 1 ? parseNumber(number) : parseScaled(number) * factor + Number(rest) * 1_000;
    const currency = parseCurrency(post?.trim()) ?? parseCurrency(pre);
    const before = folded.slice(Math.max(previousEnd, match.index - CONTEXT_LENGTH), match.index);
    // "2к" is a flat with two rooms, "85к" is a sum of money.
    const countsRooms = thousand === 'к' && currency === null && value < MIN_THOUSANDS;
    if (!countsRooms) {
      amounts.push({
        value: Math.round(value * 100) / 100,
        currency,
        scaled: factor !== 1,
        before: before.split(/[;\n!?]/u).at(-1) ?? '',
        after: folded.slice(end, end + CONTEXT_LENGTH).split(/[;\n]/u, 1)[0] ?? '',
        at: match.index,
      });
    }
    // A bare number does not separate a label from its amount: "депозит за 1 місяць 9000 грн".
    if (currency !== null || factor !== 1) previousEnd = end;
  }
  return amounts;
}

/** Role of an amount: `new` is the price after a reduction, `other` the cost of something else. */
type Role = 'new' | 'price' | 'other';

/** Phrases before a former price: "Ціна впала з". */
const PRICE_REDUCED_FROM = String.raw`(?:знижен|снижен|знизил|снизил|впал|упал|зменшен|reduced|dropped|lowered)\p{L}* (?:ціни |ціну |цены |цену |цена )?(?:з|із|с|from)(?!\p{L})`;

/** Labels before an amount, by role. The label nearest to the amount counts. */
const LABELS = compileTable<Role>(String.raw`
new: (?:->|=>|>>|[→⇒➔➡]\uFE0F?) ?$|тепер|теперь|зараз|сейчас|now|стало|нова ціна|новая цена|знижен\p{L}* (?:ціни )?до|снижен\p{L}* (?:цены )?до|reduced to|down to|${PRICE_REDUCED_FROM} \d[\d .,]{0,12} ?(?:\$|грн|usd)? ?(?:to|до)|new price|актуальн
price: цін[аиіуо]|цен[аыеу]|ценой|price|вартіст|вартост|стоимост|оренд|аренд|rent(?!ed)|asking|плат[аи](?!\p{L})|прошу|хоч[уе]м?|відда(?:м|є|д)|отда(?:м|е|д)|всього|всего лишь|за все|only|just|бюджет
other: депозит|заста[вн]|завдат|залог|задат|deposit|гаранті|комун|коммун|кварплат|світл|свет(?!л)|електр|электр|опален|отоплен|газ(?!\p{L})|вод[аиу](?!\p{L})|інтернет|интернет|internet|utilit|bills|осбб|осмд|heating|electricity
other: комісі|комисси|commission|fee(?:s)?(?!\p{L})|послуг|услуг|рієлтор|риелтор|риэлтор|agency|прибиран|уборк|cleaning|консьєрж|консьерж|охорон
other: було|была|было|був(?!\p{L})|был(?!\p{L})|раніше|ранее|раньше|was(?!\p{L})|were|formerly|previously|old price|стар[аоы]|замість|вместо|instead|(?:з|по|від)?робили|(?:с|по)?делали|витратил|потратил|купува|купил|покупал|придбал|bought|paid(?!\p{L})|spent|${PRICE_REDUCED_FROM}
other: знижк|скидк|discount|торг|уступ|доплат|внес|взнос|аванс|розтерм|розстроч|рассроч|installment|instalment|down payment|курс|rate(?!\p{L})
other: паркінг|паркинг|паркомісц|машиномісц|машиномест|гараж|комор[аиу]|кладов|parking|garage|storage|вклад|влож|інвест|ремонт\p{L}* (?:за|на|кошт|обош|обійш)|invested|дохід|доход|прибут|income|yield|зарплат|salary|штраф|fine(?!\p{L})|податк|налог|tax(?!i)|меблі за|мебель за|(?:за|per) (?:1 |один |одну )?(?:м ?2|м ?кв|кв(?!\p{L})|метр(?!о)|сотк|m ?2|sq)
`);

/** Patterns for the text before and after an amount. */
const says = createPatternTester(String.raw`
# Text after an amount per square metre, hour or year.
perUnit: ^\.?,? ?(?:/|за|per|a) ?(?:1 ?|один ?|одну ?)?(?:м ?2|м(?!\p{L})|кв(?!арт)|метр(?!о)|m ?2|sq|сотк|квадрат|годин|час(?!т)|hour|рік|год(?!и)|year|парк)
# Text after an additional cost, such as utilities. Excludes costs that are included in the price or named with an amount.
otherAfter: ^ ?(?:- ?)?(?:(?:за|на) комун|(?:комунальн|коммунальн|застав|депозит|deposit|завдат|залог|комісі|комисс|commission|agency|cleaning|fee|знижк|скидк|discount|utilities|for utilities|парк|штраф|розтерм|внес)(?!\p{L}* (?:включ|в цін))(?!\p{L}*[^,.;]{0,14}\d))
# Text after an amount that the author takes back: "Сто тисяч? Ні, вісімдесят".
questioned: ^ ?\?
monthly: ^\.?,? ?(?:\+ ?[\p{L}.]+ ?)?(?:/|в|на|за|у|per|a|each)? ?(?:міс|мес|mo(?:nth)?(?!\p{L})|pcm|monthly|щомісяч|ежемесяч|m(?!\p{L}))
daily: ^\.?,? ?(?:/|в|на|за|у|per|a)? ?(?:доб|сут|ніч|ноч|night|day|день|daily)
percent: ^ ?%
# Text after a number that counts something other than money.
measure: ^ ?-? ?(?:м(?!\p{L})|м ?2|кв(?!арт)|m ?2|sq|сот|км|km|хв|мин|min|кімн|комн|room|поверх|пов|этаж|эт|рок|рік|р\.|год|лет|year|люд|чел|person|people|guest|гост|міс|мес|доб|сут|шт|х(?!\p{L})|:\d|bed|br)
# Text before a price per night.
dailyBefore: \<(?:подобов|посуточн|за (?:добу|ніч)|за (?:сутки|ночь)|per night|nightly)
# Text before the rent that a current tenant pays, in a listing for sale.
letNow: \<(?:здан[аоі]|сдан[аоы]|здаєт|сдает|орендар|арендатор|rented|tenant|наразі зда)
`);

const GARAGE = compilePattern(
  String.raw`(?:гараж|паркінг|паркомісц|машиномісц|машиномест|parking|garage)\p{L}*`,
  'gu',
);
const WORD_AFTER = compilePattern(String.raw`^[ (-]*(?:(?:for|за|на) )?\p{L}+`);

/** Minimum price by deal type, in any currency. Lower amounts are not prices. */
const MIN_PRICE: Record<DealType, number> = { sale: 500, rent: 30, daily_rent: 5 };
/** Bounds for prices without a currency. Numbers outside are counts. */
const MIN_LABELLED = 100;
const MIN_BARE = 1_000;
const MAX_BARE = 100_000_000;

function findLastLabel(before: string): Role | null {
  let role: Role | null = null;
  let at = -1;
  for (const [candidate, pattern] of LABELS) {
    const last = [...before.matchAll(pattern)].at(-1);
    const end = last === undefined ? -1 : last.index + last[0].length;
    if (end > at) [role, at] = [candidate, end];
  }
  return role;
}

/** Returns the text before an amount, back to the last comma, plus sign or full stop. */
function extractClauseBefore({ before }: Amount): string {
  return before.split(/,(?!\d)|\+|\. /u).at(-1) ?? '';
}

const isYear = ({ value }: Amount): boolean => value >= 1900 && value <= 2035;
const isMoney = ({ currency, scaled }: Amount): boolean => currency !== null || scaled;

/** Returns whether an amount cannot be the price: it is too small, per unit, an extra cost, or the current rent. */
function cannotBePrice(amount: Amount, deal: DealType | null): boolean {
  const { value, after } = amount;
  if (value < (deal === null ? MIN_PRICE.daily_rent : MIN_PRICE[deal])) return true;
  if (['percent', 'perUnit', 'otherAfter'].some((name) => says(name, after))) return true;
  return deal === 'sale' && (says('monthly', after) || says('letNow', extractClauseBefore(amount)));
}

/** Returns 1 if the period of an amount matches the rent, -1 if it differs, and 0 if there is no period or no rent. */
function comparePeriod(amount: Amount, deal: DealType | null): -1 | 0 | 1 {
  if (deal !== 'rent' && deal !== 'daily_rent') return 0;
  const own = deal === 'rent' ? 'monthly' : 'daily';
  if (says(own, amount.after)) return 1;
  if (says(own === 'daily' ? 'monthly' : 'daily', amount.after)) return -1;
  const isDaily = isMoney(amount) && says('dailyBefore', extractClauseBefore(amount));
  return isDaily ? (deal === 'daily_rent' ? 1 : -1) : 0;
}

/** Returns whether a number without a currency may be a price. */
function isBarePrice(amount: Amount, role: Role | null, fit: number): boolean {
  const { value, before, after } = amount;
  if (fit === 1) return value >= MIN_LABELLED;
  if (says('measure', after)) return false;
  if (role !== null) return value >= MIN_LABELLED && (role === 'price' || !isYear(amount));
  const isRound = value >= MIN_BARE && value <= MAX_BARE && value % 50 === 0;
  return isRound && !isYear(amount) && !/[№#/-] ?$/u.test(before);
}

/** Returns whether an amount belongs to another deal, judged by the words around it or by its size. */
function isForOtherDeal(amount: Amount, deal: DealType | null): boolean {
  const before = extractClauseBefore(amount);
  const named = offersBothDeals(before)
    ? guessDealType(amount.value, amount.currency)
    : (findLastDeal(before) ?? findLastDeal(WORD_AFTER.exec(amount.after)?.[0] ?? ''));
  return deal !== null && named !== null && (named === 'sale') !== (deal === 'sale');
}

/** Scores how likely an amount is the price. 0 means that it is not a price. */
function scoreAmount(amount: Amount, deal: DealType | null): number {
  const role = findLastLabel(extractClauseBefore(amount));
  if (role === 'other' || cannotBePrice(amount, deal) || isForOtherDeal(amount, deal)) return 0;
  const fit = comparePeriod(amount, deal);
  const money = isMoney(amount);
  if (!money && !isBarePrice(amount, role, fit)) return 0;
  // A round number without a label or a period is the weakest candidate.
  if (!money && role === null && fit !== 1) return deal === null ? 0 : 1;
  const said = role === 'new' ? 6 : role === 'price' ? 2 : 0;
  const doubt = says('questioned', amount.after) ? 3 : 0;
  return Math.max(1, (money ? 4 : 2) + said + 3 * fit - doubt);
}

/** Rents without a currency are in hryvnias from these amounts up. */
const MIN_HRYVNIA_RENT = 3_000;
const MIN_HRYVNIA_NIGHT = 300;

function guessCurrency(price: number, deal: DealType | null): string | null {
  if (deal === 'rent' && price >= MIN_HRYVNIA_RENT) return 'UAH';
  return deal === 'daily_rent' && price >= MIN_HRYVNIA_NIGHT ? 'UAH' : null;
}

function findCurrency(amounts: Amount[], price: number): string | null {
  return (
    amounts.find(({ value, currency }) => value === price && currency !== null)?.currency ?? null
  );
}

/**
 * Reads the asking price. Ignores deposits, utilities, commissions, prices per square metre and former prices. Of
 * several candidates, the one with the highest score wins, and the first one of equal scores.
 */
export function readPrice(folded: string, deal: DealType | null, type: PropertyType | null): Price {
  let best: Amount | null = null;
  let bestScore = 0;
  // The word "garage" marks a price as that of an extra, unless the garage itself is on offer.
  const amounts = readAmounts(type === 'garage' ? folded.replace(GARAGE, ' ') : folded);
  for (const amount of amounts) {
    const points = scoreAmount(amount, deal);
    if (points > bestScore) [best, bestScore] = [amount, points];
  }
  if (best === null) return { price: null, currency: null };
  const currency =
    best.currency ?? findCurrency(amounts, best.value) ?? guessCurrency(best.value, deal);
  return { price: best.value, currency };
}

/** Returns the currency of a known price in a text, or null if the text does not contain the price with a currency. */
export function findPriceCurrency(folded: string, price: number): string | null {
  return findCurrency(readAmounts(folded), price);
}
