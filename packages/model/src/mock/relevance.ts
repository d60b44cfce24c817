import { otherTrade } from './other-trades.ts';
import { rule, stem, whole } from './patterns.ts';

/** What has been read so far, as far as it tells a listing from other messages. */
export type Evidence = {
  folded: string;
  /** A property is named in the text or by the payload. */
  namesProperty: boolean;
  /** An offer, a price, rooms, areas or floors are known. */
  hasFacts: boolean;
  /** The payload itself says deal and price, as a source of listings does. */
  isStructured: boolean;
};

const OFFER = stem(
  String.raw`прода[мюєжю]|продаєм|продает|зда[мює]|сда[мюе]|оренда(?!р)|аренда(?!т)|пропону|предлага|for sale|for rent|to let|обмін|обмен`,
);

/** "Сниму — не предлагать" is said to those who seek, by someone who offers. */
const NOT_SAID_OF_ONESELF = String.raw`(?!,? (?:прошу )?не (?:пропон|предлаг|турб|беспоко))`;

const WANTED: RegExp[] = [
  whole(
    String.raw`(?:куплю|купимо|купим|зніму|знімемо|зніме|сниму|снимем|снимет|винайму|винаймемо|арендую|орендую)${NOT_SAID_OF_ONESELF}|(?:візьму|возьму) (?:в|у) (?:оренду|аренду)|(?:хочу|хочемо|хотим|хоче) (?:зняти|снять|купити|купить|орендувати)`,
  ),
  whole(
    String.raw`(?:шука(?:ю|ємо|є)|ищ(?:у|ем|ет)) (?!(?:порядн|орендар|квартирант|арендатор|мешкан|жильц|співмешк|сусід|сосед|клієнт|покупц|покупат|сім|семью|дівчин|девушк|хлопц|людин|відповід)\p{L}*)(?:\p{L}+[ ,-]+){0,4}?(?:житло|жилье|квартир\p{L}*|кімнат\p{L}*|комнат\p{L}*|будин\p{L}*|дом|хат\p{L}*|офіс|офис|приміщенн\p{L}*|помещени\p{L}*|гараж|ділянк\p{L}*|участок|студі\p{L}*|студи\p{L}*|однушк\p{L}*|двушк\p{L}*|\d)`,
  ),
  whole(
    String.raw`(?:i am |im |we are |were )?(?:looking (?:for|to rent|to buy)|searching for|in search of|need|wanted|want to (?:rent|buy)) ?:? (?!.{0,60}\?)(?!a? ?(?:new )?(?:tenant|flatmate|roommate|housemate|buyer|responsible|quiet|tidy))(?:\S+ ){0,5}?(?:apartments?|flats?|room|house|home|place|studio|condo|\d ?-?bed\p{L}*|\d ?br|accommodation)`,
  ),
];

const MESSAGE = stem(
  String.raw`чи актуальн|ще актуальн|еще актуальн|is (?:\S+ ){1,7}?still available|як справи|как дела|how are you|тестове повідомлення|тестовое сообщение`,
);

/** Asked of everyone, near the beginning: what follows may name flats and rents. */
const QUESTION = rule(
  String.raw`^(?:[\p{L}']+[ ,.!-]+){0,5}?(?:(?:хто|кто)(?:-небудь|-нибудь|-то)? (?:знає|знает|чув|слышал|живе|живет)|підкажіть|подскажите|порадьте|посоветуйте|порекомендуйте|(?:any|some)one (?:know|recommend))`,
);

/** Where a pattern first matches; infinitely far when it does not. */
function position(text: string, pattern: RegExp): number {
  const at = text.search(pattern);
  return at < 0 ? Infinity : at;
}

function isWanted({ folded }: Evidence): boolean {
  const wanted = Math.min(...WANTED.map((pattern) => position(folded, pattern)));
  return wanted < position(folded, OFFER);
}

/**
 * Why a text is no listing of a property that is on offer, as an English sentence; null for
 * listings. Advertisements by people who seek a home are no listings.
 */
export function whyNoListing(evidence: Evidence): string | null {
  const { folded, namesProperty, hasFacts, isStructured } = evidence;
  if (isWanted(evidence)) return 'The writer looks for a property and offers none.';
  const offersProperty = namesProperty && OFFER.test(folded);
  const trade = otherTrade(folded, offersProperty);
  if (trade !== null) return trade;
  if (QUESTION.test(folded) || (MESSAGE.test(folded) && !OFFER.test(folded))) {
    return 'The text is a message to someone, not an offer.';
  }
  if (namesProperty || isStructured) return null;
  return hasFacts
    ? 'The text offers something, but names no property.'
    : 'The text names no property and makes no offer.';
}
