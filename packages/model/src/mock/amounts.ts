import { rule } from './patterns.ts';
import { CURRENCY, currencyCode } from './currency.ts';

/** One sum of money in a text, with the words around it that tell what it is for. */
export type Amount = {
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
const LEAST_THOUSANDS = 7_000;

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
 * Every number of a folded text that may be a sum of money, in its order. Numbers without currency
 * and multiplier are among them: a label such as "ціна" can still make them prices.
 */
export function readAmounts(folded: string): Amount[] {
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
    const countsRooms = thousand === 'к' && currency === null && value < LEAST_THOUSANDS;
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
