import { patterns, rows, rule, tester } from './text.ts';
import {
  type DealType,
  dealTypeOfPrice,
  lastOffer,
  offersEither,
  type PropertyType,
} from './kinds.ts';

/** A price and its currency, ISO 4217. */
export type Price = { price: number | null; currency: string | null };

/** Forms of currencies in folded text, longest first. "Умовні одиниці" are dollars in Ukrainian listings. */
const CURRENCIES = rows(String.raw`
USD: us\$|usd|\$|долар(?:ів|и|а|ах)?|доллар(?:ов|а|ы|ах)?|долл|дол|dollars?|bucks|бакс(?:ів|ов|и|ы|а)?|у\.? ?[ео](?![\p{L}])\.?|зелен(?:их|ых)
EUR: eur(?:os?)?|€|євро|евро
UAH: uah|₴|грн|гривень|гривні|гривня|гривна|гривен|гривны|гр(?!\p{L})\.?|hrn|hryvnias?|hryvnia
PLN: pln|zł|злотих|злотых
GBP: gbp|£
`);
const CURRENCY = CURRENCIES.map(([, forms]) => forms).join('|');
const CODES = CURRENCIES.map(([code, forms]): [string, RegExp] => [code, rule(`^(?:${forms})$`)]);

/** Returns the ISO 4217 code of a form of `CURRENCY`, else null. */
function currencyCode(form: string | undefined): string | null {
  return CODES.find(([, pattern]) => form !== undefined && pattern.test(form))?.[0] ?? null;
}

/** A sum of money in a text, with the words around it. */
type Amount = {
  value: number;
  /** ISO 4217; null when the text does not say. */
  currency: string | null;
  /** Written with a multiplier ("85к", "15 тис"), so surely no count of something else. */
  scaled: boolean;
  /** The words before it, back to the amount or line before. */
  before: string;
  /** The words after it, up to the next separator. */
  after: string;
  at: number;
};

const WINDOW = 48;
const MIN_THOUSANDS = 7_000;

const NUMBER = String.raw`\d{1,3}(?:[ .,]\d{3})+(?!\d)(?:[.,]\d{1,2}(?!\d))?|\d{1,9}(?:[.,]\d{1,2}(?!\d))?`;
const THOUSAND = String.raw`тис(?:яч[аіуи]?)?\.?|т[иы]щ[аиіу]?|штук[аиу]?(?= ?(?:${CURRENCY}))|тыс(?:яч[аиу]?)?\.?|thousand|[кk](?![\p{L}])|т\.?(?= ?(?:${CURRENCY}))`;
const MILLION = String.raw`млн\.?|мільйон\p{L}*|миллион\p{L}*|million|mln|m(?= ?(?:usd|eur|uah|\$|€))`;

const AMOUNT = rule(
  String.raw`(?<!\d)(?<!\d[.,/])(?:(?<pre>(?<!\p{L})(?:${CURRENCY})) ?)?(?<number>${NUMBER})` +
    String.raw`(?: ?[-–] ?\d{1,3}(?:[ .,]?\d{3})*(?=[^\d/]))?` +
    String.raw` ?(?:(?<thousand>${THOUSAND})|(?<million>${MILLION})(?: (?<rest>\d{1,3}) ?(?:тис|тыс)\p{L}*\.?)?)?` +
    String.raw`(?: ?(?<post>${CURRENCY})(?![\p{L}\d]))?`,
  'gu',
);

/** "85 000", "85.000" and "85,000" are groups of thousands; "1,2" and "65.5" are decimals. */
function parseNumber(written: string): number {
  const grouped = /^\d{1,3}(?:[ .,]\d{3})+/u.exec(written)?.[0] ?? '';
  const rest = written.slice(grouped.length);
  const whole = grouped.replace(/[ .,]/gu, '');
  return Number((whole + rest).replace(',', '.'));
}

/** "1.200 млн" would be a group if read alone; with a multiplier it is a decimal. */
function parseScaled(written: string): number {
  return Number(written.replaceAll(' ', '').replace(',', '.'));
}

/**
 * Returns every number of a folded text that may be a sum of money, in its order. Numbers without currency and
 * multiplier are among them: a label such as "ціна" can still make them prices.
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
    const currency = currencyCode(post?.trim()) ?? currencyCode(pre);
    const before = folded.slice(Math.max(previousEnd, match.index - WINDOW), match.index);
    // "2к" is a flat of two rooms, "85к" a sum.
    const countsRooms = thousand === 'к' && currency === null && value < MIN_THOUSANDS;
    if (!countsRooms) {
      amounts.push({
        value: Math.round(value * 100) / 100,
        currency,
        scaled: factor !== 1,
        before: before.split(/[;\n!?]/u).at(-1) ?? '',
        after: folded.slice(end, end + WINDOW).split(/[;\n]/u, 1)[0] ?? '',
        at: match.index,
      });
    }
    // A bare number ("депозит за 1 місяць 9000 грн") does not part a label from its amount.
    if (currency !== null || factor !== 1) previousEnd = end;
  }
  return amounts;
}

/** The role of an amount: the newest price, a price, or the cost of something else. */
type Role = 'new' | 'price' | 'other';

/** "Ціна впала з": the price of the past follows. */
const LOWERED = String.raw`(?:знижен|снижен|знизил|снизил|впал|упал|зменшен|reduced|dropped|lowered)\p{L}* (?:ціни |ціну |цены |цену |цена )?(?:з|із|с|from)(?!\p{L})`;

/** Words before an amount that give it a role. The label nearest to the amount counts. */
const LABELS = patterns<Role>(String.raw`
new: (?:->|=>|>>|[→⇒➔➡]\uFE0F?) ?$|тепер|теперь|зараз|сейчас|now|стало|нова ціна|новая цена|знижен\p{L}* (?:ціни )?до|снижен\p{L}* (?:цены )?до|reduced to|down to|${LOWERED} \d[\d .,]{0,12} ?(?:\$|грн|usd)? ?(?:to|до)|new price|актуальн
price: цін[аиіуо]|цен[аыеу]|ценой|price|вартіст|вартост|стоимост|оренд|аренд|rent(?!ed)|asking|плат[аи](?!\p{L})|прошу|хоч[уе]м?|відда(?:м|є|д)|отда(?:м|е|д)|всього|всего лишь|за все|only|just|бюджет
other: депозит|заста[вн]|завдат|залог|задат|deposit|гаранті|комун|коммун|кварплат|світл|свет(?!л)|електр|электр|опален|отоплен|газ(?!\p{L})|вод[аиу](?!\p{L})|інтернет|интернет|internet|utilit|bills|осбб|осмд|heating|electricity
other: комісі|комисси|commission|fee(?:s)?(?!\p{L})|послуг|услуг|рієлтор|риелтор|риэлтор|agency|прибиран|уборк|cleaning|консьєрж|консьерж|охорон
other: було|была|было|був(?!\p{L})|был(?!\p{L})|раніше|ранее|раньше|was(?!\p{L})|were|formerly|previously|old price|стар[аоы]|замість|вместо|instead|(?:з|по|від)?робили|(?:с|по)?делали|витратил|потратил|купува|купил|покупал|придбал|bought|paid(?!\p{L})|spent|${LOWERED}
other: знижк|скидк|discount|торг|уступ|доплат|внес|взнос|аванс|розтерм|розстроч|рассроч|installment|instalment|down payment|курс|rate(?!\p{L})
other: паркінг|паркинг|паркомісц|машиномісц|машиномест|гараж|комор[аиу]|кладов|parking|garage|storage|вклад|влож|інвест|ремонт\p{L}* (?:за|на|кошт|обош|обійш)|invested|дохід|доход|прибут|income|yield|зарплат|salary|штраф|fine(?!\p{L})|податк|налог|tax(?!i)|меблі за|мебель за|(?:за|per) (?:1 |один |одну )?(?:м ?2|м ?кв|кв(?!\p{L})|метр(?!о)|сотк|m ?2|sq)
`);

/** Patterns of the words around an amount. */
const says = tester(String.raw`
# After an amount: it is for a square metre, an hour or a year.
perUnit: ^\.?,? ?(?:/|за|per|a) ?(?:1 ?|один ?|одну ?)?(?:м ?2|м(?!\p{L})|кв(?!арт)|метр(?!о)|m ?2|sq|сотк|квадрат|годин|час(?!т)|hour|рік|год(?!и)|year|парк)
# After an amount: it is a cost beside the price, neither included in it nor with an amount of its own.
otherAfter: ^ ?(?:- ?)?(?:(?:за|на) комун|(?:комунальн|коммунальн|застав|депозит|deposit|завдат|залог|комісі|комисс|commission|agency|cleaning|fee|знижк|скидк|discount|utilities|for utilities|парк|штраф|розтерм|внес)(?!\p{L}* (?:включ|в цін))(?!\p{L}*[^,.;]{0,14}\d))
# After an amount: "Сто тисяч? Ні, вісімдесят".
questioned: ^ ?\?
monthly: ^\.?,? ?(?:\+ ?[\p{L}.]+ ?)?(?:/|в|на|за|у|per|a|each)? ?(?:міс|мес|mo(?:nth)?(?!\p{L})|pcm|monthly|щомісяч|ежемесяч|m(?!\p{L}))
daily: ^\.?,? ?(?:/|в|на|за|у|per|a)? ?(?:доб|сут|ніч|ноч|night|day|день|daily)
percent: ^ ?%
# After a number: it counts something else, so that no label makes it a price.
measure: ^ ?-? ?(?:м(?!\p{L})|м ?2|кв(?!арт)|m ?2|sq|сот|км|km|хв|мин|min|кімн|комн|room|поверх|пов|этаж|эт|рок|рік|р\.|год|лет|year|люд|чел|person|people|guest|гост|міс|мес|доб|сут|шт|х(?!\p{L})|:\d|bed|br)
# Before an amount of money.
dailyBefore: \<(?:подобов|посуточн|за (?:добу|ніч)|за (?:сутки|ночь)|per night|nightly)
# Before an amount: the home is let, so in an offer of sale the amount is the rent of its tenant.
letNow: \<(?:здан[аоі]|сдан[аоы]|здаєт|сдает|орендар|арендатор|rented|tenant|наразі зда)
`);

const GARAGE = rule(
  String.raw`(?:гараж|паркінг|паркомісц|машиномісц|машиномест|parking|garage)\p{L}*`,
  'gu',
);
const SAID_AFTER = rule(String.raw`^[ (-]*(?:(?:for|за|на) )?\p{L}+`);

/** Below these a sum is no price of a home. */
const MIN_PRICE: Record<DealType, number> = { sale: 500, rent: 30, daily_rent: 5 };
/** Numbers without a currency are taken for prices only within bounds, to leave counts alone. */
const MIN_LABELLED = 100;
const MIN_BARE = 1_000;
const MAX_BARE = 100_000_000;

function lastLabel(before: string): Role | null {
  let role: Role | null = null;
  let at = -1;
  for (const [candidate, pattern] of LABELS) {
    const last = [...before.matchAll(pattern)].at(-1);
    const end = last === undefined ? -1 : last.index + last[0].length;
    if (end > at) [role, at] = [candidate, end];
  }
  return role;
}

/** Returns the words since the last comma, plus or full stop. */
function clauseBefore({ before }: Amount): string {
  return before.split(/,(?!\d)|\+|\. /u).at(-1) ?? '';
}

const isYear = ({ value }: Amount): boolean => value >= 1900 && value <= 2035;
const isMoney = ({ currency, scaled }: Amount): boolean => currency !== null || scaled;

/** Returns whether an amount is surely for something else, or by another measure, than the deal's price. */
function isNoPrice(amount: Amount, deal: DealType | null): boolean {
  const { value, after } = amount;
  if (value < (deal === null ? MIN_PRICE.daily_rent : MIN_PRICE[deal])) return true;
  if (['percent', 'perUnit', 'otherAfter'].some((name) => says(name, after))) return true;
  return deal === 'sale' && (says('monthly', after) || says('letNow', clauseBefore(amount)));
}

/** Returns 1 when the amount's period is the deal's, -1 when it is another's, 0 when it has none. */
function periodFit(amount: Amount, deal: DealType | null): -1 | 0 | 1 {
  if (deal !== 'rent' && deal !== 'daily_rent') return 0;
  const own = deal === 'rent' ? 'monthly' : 'daily';
  if (says(own, amount.after)) return 1;
  if (says(own === 'daily' ? 'monthly' : 'daily', amount.after)) return -1;
  const isDaily = isMoney(amount) && says('dailyBefore', clauseBefore(amount));
  return isDaily ? (deal === 'daily_rent' ? 1 : -1) : 0;
}

/** Returns whether a number without a currency may be a sum of money at all. */
function isBarePrice(amount: Amount, role: Role | null, fit: number): boolean {
  const { value, before, after } = amount;
  if (fit === 1) return value >= MIN_LABELLED;
  if (says('measure', after)) return false;
  if (role !== null) return value >= MIN_LABELLED && (role === 'price' || !isYear(amount));
  const isRound = value >= MIN_BARE && value <= MAX_BARE && value % 50 === 0;
  return isRound && !isYear(amount) && !/[№#/-] ?$/u.test(before);
}

/** Returns whether an amount is for another deal, by the words beside it or its size. */
function isForOtherDeal(amount: Amount, deal: DealType | null): boolean {
  const before = clauseBefore(amount);
  const named = offersEither(before)
    ? dealTypeOfPrice(amount.value, amount.currency)
    : (lastOffer(before) ?? lastOffer(SAID_AFTER.exec(amount.after)?.[0] ?? ''));
  return deal !== null && named !== null && (named === 'sale') !== (deal === 'sale');
}

/** Scores an amount as the price; 0 for none at all. */
function score(amount: Amount, deal: DealType | null): number {
  const role = lastLabel(clauseBefore(amount));
  if (role === 'other' || isNoPrice(amount, deal) || isForOtherDeal(amount, deal)) return 0;
  const fit = periodFit(amount, deal);
  const money = isMoney(amount);
  if (!money && !isBarePrice(amount, role, fit)) return 0;
  // A round number that nothing explains is the last thing to be taken for a price.
  if (!money && role === null && fit !== 1) return deal === null ? 0 : 1;
  const said = role === 'new' ? 6 : role === 'price' ? 2 : 0;
  const doubt = says('questioned', amount.after) ? 3 : 0;
  return Math.max(1, (money ? 4 : 2) + said + 3 * fit - doubt);
}

/** Monthly rents from here up that name no currency are in hryvnias; so are nights from 300. */
const MIN_HRYVNIA_RENT = 3_000;
const MIN_HRYVNIA_NIGHT = 300;

function usualCurrency(price: number, deal: DealType | null): string | null {
  if (deal === 'rent' && price >= MIN_HRYVNIA_RENT) return 'UAH';
  return deal === 'daily_rent' && price >= MIN_HRYVNIA_NIGHT ? 'UAH' : null;
}

function currencyOf(amounts: Amount[], price: number): string | null {
  return (
    amounts.find(({ value, currency }) => value === price && currency !== null)?.currency ?? null
  );
}

/**
 * Reads the asking price, and not deposits, utilities, commissions, prices per square metre and prices of the past. The
 * best amount wins, the first one among equals.
 */
export function readPrice(folded: string, deal: DealType | null, type: PropertyType | null): Price {
  let best: Amount | null = null;
  let bestScore = 0;
  // Next to a flat the garage has a price of its own; on its own it is what the price is for.
  const amounts = readAmounts(type === 'garage' ? folded.replace(GARAGE, ' ') : folded);
  for (const amount of amounts) {
    const points = score(amount, deal);
    if (points > bestScore) [best, bestScore] = [amount, points];
  }
  if (best === null) return { price: null, currency: null };
  const currency =
    best.currency ?? currencyOf(amounts, best.value) ?? usualCurrency(best.value, deal);
  return { price: best.value, currency };
}

/** Returns the currency that a text gives to a known price; null when the text does not name the price. */
export function currencyOfPrice(folded: string, price: number): string | null {
  return currencyOf(readAmounts(folded), price);
}
