import { rule, stem, whole } from './patterns.ts';
import type { DealType } from './types.ts';

/** The kinds of deal that words offer outright; a daily rent is a rent with more words. */
type Offered = 'sale' | 'rent';

/** Words that say outright what is offered. The first of them in a text decides. */
const OFFERS: [Offered, RegExp][] = [
  [
    'sale',
    whole(
      String.raw`прода(?:м|ю|є|єця|єтся|еться|ємо|емо|ем|ються|ється|еться|ется|ются|ж|жа|жу|жи|же|єм|ємся|но|дим)|на продаж|пропонується до продажу|обмін|обміняю|обміняємо|обмен|обменяю|меняю|(?:for|on) sale|selling|sale|to sell|we sell`,
      'gu',
    ),
  ],
  [
    'rent',
    whole(
      String.raw`зда(?:м|ю|єця|еця|єтся|ється|еться|ємо|емо|єм|ча|но|ються|сться)|сда(?:м|ю|ется|ем|ется|ча|ются|ётся|єтся|єм|еться)|оренда|оренду|оренди|оренді|аренда|аренду|аренды|аренде|(?:for|to) (?:rent|let)|rent(?:al|als|ing)?|to let|lease|long[- ]term|sublet(?:ting)?|довгострок\p{L}+|довготривал\p{L}+|долгосроч\p{L}+|(?:на )?(?:тривалий термін|длительный срок)|помісячно|помесячно`,
      'gu',
    ),
  ],
];

const DAILY = whole(
  String.raw`подобов\p{L}*|посуточн\p{L}*|щодоб\p{L}*|на добу|за добу|в добу|доба|на сутки|за сутки|в сутки|сутки|сут|per night|nightly|a night|by the night|(?<=/ ?)(?:night|day|ніч|ночь|добу|сут)|per day|daily (?:rent|rental|let)|short[- ](?:term|stays?|let|lets)|за ніч|на ніч|за ночь|на ночь|почасово`,
);

const NOT_DAILY = whole(
  String.raw`(?:не|без|no|not|крім|кроме|окрім) (?:здаю |здаємо |сдаю |сдаем |for |a )?(?:подобов\p{L}*|посуточн\p{L}*|на добу|на сутки|daily|short[- ]\p{L}+|nightly|почасово)|(?:подобово|посуточно|почасово) (?:не|ні|нет|не пропонувати)`,
  'gu',
);

const MONTHLY = whole(
  String.raw`(?<=/ ?)(?:міс|мес|mo|month)|(?:на|в|за|у|per|a) (?:місяць|міс|месяц|мес|month)|pcm|monthly|щомісяч\p{L}*|ежемесячн\p{L}*`,
);

/** A sentence that says who lives there now is no offer of rent. */
const LET_ALREADY = whole(
  String.raw`(?:з|із|с) (?:орендар\p{L}*|арендатор\p{L}*)|with (?:a )?(?:sitting )?tenants?`,
);

/** "4800 + комуналка": only tenants pay for the utilities on top. */
const PLUS_UTILITIES = rule(
  String.raw`(?:\+|плюс|plus) ?(?:комун|коммун|ком(?!\p{L})|к/п|світло|свет(?!л)|лічильник|счетчик|utilit|bills)`,
);

/** Ways of paying that only a sale has. */
const PAID_FOR_GOOD = stem(
  String.raw`розстроч|розтерм|рассроч|іпотек|ипотек|єоселя|еоселя|mortgage|instal?lments?`,
);

const DEAL = String.raw`(?:оренд|аренд|здач|сдач|прода|обмін|обмен|rent|sale|lease)\p{L}*`;
const AND = String.raw`(?:[,/]| (?:або|чи|или|or|та|і|и|and) )`;

/** Deals that a text denies: "оренда та обмін не цікавлять", "в оренду не здається", "not for rent". */
const DENIED = whole(
  String.raw`${DEAL}(?: ?${AND} ?${DEAL})? (?:- |\p{L}+ )?(?:не|is not|are not|not) (?:an )?(?:цікав|интерес|розгляда|рассматрива|пропон|предлаг|потріб|нуж|interest|consider|offered|possible|available|option)\p{L}*|(?:в|у|на) ${DEAL} не (?:зда|сда|прода)\p{L}*|(?:не|без|not for|not|no) (?:для |на |в )?(?:${DEAL}|зда[юєм]\p{L}*|сда[юе]\p{L}*)`,
  'gu',
);

const OFFERED = String.raw`(?:(?:for |to )?(?:rent|sale|let)|${DEAL}|(?:прода|зда|сда|sell)\p{L}*)`;
/** "Здам або продам", "for sale / rent": the words do not tell which deal a price is for. */
const EITHER = whole(String.raw`${OFFERED} ?${AND} ?${OFFERED}`);

/** A building that is finished then, "здача 3 квартал 2026", is not let. */
const COMPLETION = rule(
  String.raw`(?<!\p{L})[зс]да\p{L}+[ :,-]{1,3}[^.;\n]{0,30}?(?:[еэ]ксплуатац|(?:\d|[iі]{1,3}|iv|перш|друг|трет|четверт|перв|втор)\p{L}{0,4}-? ?\p{L}{0,3} ?(?:квартал|кв\.? ?(?=20\d\d)))|(?<!\p{L})[зс]дач\p{L}*[ :,-]{1,3}(?!\p{L} (?:оренд|аренд))[^.;\n]{0,30}?(?:\d\.)?20[2-4]\d(?!\d| ?(?:\$|€|грн|uah|usd|eur|у\.? ?е|м|m))`,
  'gu',
);

/** The text without the deals that it does not offer. */
const withoutDenied = (text: string): string => text.replace(DENIED, ' ').replace(COMPLETION, ' ');

function firstOffer(text: string): Offered | null {
  const found = OFFERS.map(([deal, pattern]) => ({ deal, at: text.search(pattern) }))
    .filter(({ at }) => at >= 0)
    .toSorted((a, b) => a.at - b.at);
  return found[0]?.deal ?? null;
}

/** Whether a folded text offers sale or rent in one breath. */
export const offersEither = (text: string): boolean => EITHER.test(text);

/** The deal that a folded text offers last, nearest to what follows; null without one. */
export function lastOffer(text: string): Offered | null {
  const offered = withoutDenied(text);
  const found = OFFERS.flatMap(([deal, pattern]) =>
    [...offered.matchAll(pattern)].map(({ index }) => ({ deal, at: index })),
  ).toSorted((a, b) => a.at - b.at);
  return found.at(-1)?.deal ?? null;
}

/**
 * What is offered, from the words of the text alone; null when no word tells. The title has the
 * first say. "Подобово" and its like turn rent into daily rent, unless they are denied.
 */
export function readDealType(foldedTitle: string, folded: string): DealType | null {
  const offer = firstOffer(withoutDenied(foldedTitle)) ?? firstOffer(withoutDenied(folded));
  if (offer === 'sale') return 'sale';
  if (DAILY.test(folded.replace(NOT_DAILY, ' '))) return 'daily_rent';
  if (offer !== null) return offer;
  if (LET_ALREADY.test(folded)) return 'sale';
  if (MONTHLY.test(folded) || PLUS_UTILITIES.test(folded)) return 'rent';
  return PAID_FOR_GOOD.test(folded) ? 'sale' : null;
}

/** Asking prices that only one kind of deal has; between them nothing is guessed. */
const TELLING_PRICES: Record<string, { rentBelow: number; saleFrom: number }> = {
  USD: { rentBelow: 4_000, saleFrom: 8_000 },
  EUR: { rentBelow: 4_000, saleFrom: 8_000 },
  UAH: { rentBelow: 90_000, saleFrom: 250_000 },
};

/** The deal that a price with its currency points to, for texts that say nothing else. */
export function dealTypeOfPrice(price: number | null, currency: string | null): DealType | null {
  const telling = TELLING_PRICES[currency ?? ''];
  if (price === null || telling === undefined) return null;
  if (price >= telling.saleFrom) return 'sale';
  return price < telling.rentBelow ? 'rent' : null;
}
