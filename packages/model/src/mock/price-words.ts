import { rule, stem } from './patterns.ts';

/** What an amount is, by the words around it: the newest price, a price, or the cost of something else. */
export type Role = 'new' | 'price' | 'other';

/** "Ціна впала з": what follows is the price of the past. */
const LOWERED = String.raw`(?:знижен|снижен|знизил|снизил|впал|упал|зменшен|reduced|dropped|lowered)\p{L}* (?:ціни |ціну |цены |цену |цена )?(?:з|із|с|from)(?!\p{L})`;

/** What the words before an amount make of it. The label nearest to the amount counts. */
export const LABELS: [Role, RegExp][] = [
  [
    'new',
    stem(
      String.raw`(?:->|=>|>>|[→⇒➔➡]\uFE0F?) ?$|тепер|теперь|зараз|сейчас|now|стало|нова ціна|новая цена|знижен\p{L}* (?:ціни )?до|снижен\p{L}* (?:цены )?до|reduced to|down to|${LOWERED} \d[\d .,]{0,12} ?(?:\$|грн|usd)? ?(?:to|до)|new price|актуальн`,
      'gu',
    ),
  ],
  [
    'price',
    stem(
      String.raw`цін[аиіуо]|цен[аыеу]|ценой|price|вартіст|вартост|стоимост|оренд|аренд|rent(?!ed)|asking|плат[аи](?!\p{L})|прошу|хоч[уе]м?|відда(?:м|є|д)|отда(?:м|е|д)|всього|всего лишь|за все|only|just|бюджет`,
      'gu',
    ),
  ],
  [
    'other',
    stem(
      String.raw`депозит|заста[вн]|завдат|залог|задат|deposit|гаранті|комун|коммун|кварплат|світл|свет(?!л)|електр|электр|опален|отоплен|газ(?!\p{L})|вод[аиу](?!\p{L})|інтернет|интернет|internet|utilit|bills|осбб|осмд|heating|electricity`,
      'gu',
    ),
  ],
  [
    'other',
    stem(
      String.raw`комісі|комисси|commission|fee(?:s)?(?!\p{L})|послуг|услуг|рієлтор|риелтор|риэлтор|agency|прибиран|уборк|cleaning|консьєрж|консьерж|охорон`,
      'gu',
    ),
  ],
  [
    'other',
    stem(
      String.raw`було|была|было|був(?!\p{L})|был(?!\p{L})|раніше|ранее|раньше|was(?!\p{L})|were|formerly|previously|old price|стар[аоы]|замість|вместо|instead|(?:з|по|від)?робили|(?:с|по)?делали|витратил|потратил|купува|купил|покупал|придбал|bought|paid(?!\p{L})|spent|${LOWERED}`,
      'gu',
    ),
  ],
  [
    'other',
    stem(
      String.raw`знижк|скидк|discount|торг|уступ|доплат|внес|взнос|аванс|розтерм|розстроч|рассроч|installment|instalment|down payment|курс|rate(?!\p{L})`,
      'gu',
    ),
  ],
  [
    'other',
    stem(
      String.raw`паркінг|паркинг|паркомісц|машиномісц|машиномест|гараж|комор[аиу]|кладов|parking|garage|storage|вклад|влож|інвест|ремонт\p{L}* (?:за|на|кошт|обош|обійш)|invested|дохід|доход|прибут|income|yield|зарплат|salary|штраф|fine(?!\p{L})|податк|налог|tax(?!i)|меблі за|мебель за|(?:за|per) (?:1 |один |одну )?(?:м ?2|м ?кв|кв(?!\p{L})|метр(?!о)|сотк|m ?2|sq)`,
      'gu',
    ),
  ],
];

/** After an amount: it is for a square metre, an hour or a year, and no price of the whole. */
export const PER_UNIT = rule(
  String.raw`^\.?,? ?(?:/|за|per|a) ?(?:1 ?|один ?|одну ?)?(?:м ?2|м(?!\p{L})|кв(?!арт)|метр(?!о)|m ?2|sq|сотк|квадрат|годин|час(?!т)|hour|рік|год(?!и)|year|парк)`,
);
/**
 * After an amount: it is a cost beside the price. What is said to be included in the price is none, nor is what has an
 * amount of its own.
 */
export const OTHER_AFTER = rule(
  String.raw`^ ?(?:- ?)?(?:(?:за|на) комун|(?:комунальн|коммунальн|застав|депозит|deposit|завдат|залог|комісі|комисс|commission|agency|cleaning|fee|знижк|скидк|discount|utilities|for utilities|парк|штраф|розтерм|внес)(?!\p{L}* (?:включ|в цін))(?!\p{L}*[^,.;]{0,14}\d))`,
);
/** "Сто тисяч? Ні, вісімдесят": a price asked about is not the one that holds. */
export const QUESTIONED = /^ ?\?/u;
/** After an amount: it is for a month. */
export const MONTHLY = rule(
  String.raw`^\.?,? ?(?:\+ ?[\p{L}.]+ ?)?(?:/|в|на|за|у|per|a|each)? ?(?:міс|мес|mo(?:nth)?(?!\p{L})|pcm|monthly|щомісяч|ежемесяч|m(?!\p{L}))`,
);
/** After an amount: it is for a night. */
export const DAILY = /^\.?,? ?(?:\/|в|на|за|у|per|a)? ?(?:доб|сут|ніч|ноч|night|day|день|daily)/u;
/** Before an amount of money: the same. */
export const DAILY_BEFORE = stem(
  String.raw`подобов|посуточн|за (?:добу|ніч)|за (?:сутки|ночь)|per night|nightly`,
);
/** After a number: it is no amount of money. */
export const PERCENT = /^ ?%/u;
/** Counts of other things, which a label before them cannot make a price. */
export const MEASURE = rule(
  String.raw`^ ?-? ?(?:м(?!\p{L})|м ?2|кв(?!арт)|m ?2|sq|сот|км|km|хв|мин|min|кімн|комн|room|поверх|пов|этаж|эт|рок|рік|р\.|год|лет|year|люд|чел|person|people|guest|гост|міс|мес|доб|сут|шт|х(?!\p{L})|:\d|bed|br)`,
);
/** Before an amount: the home is let, so in an offer of sale the amount is what its tenant pays. */
export const LET_NOW = stem(
  String.raw`здан[аоі]|сдан[аоы]|здаєт|сдает|орендар|арендатор|rented|tenant|наразі зда`,
);
