import { stem, whole } from './patterns.ts';

/** What has been read so far, as far as it tells a listing from other messages. */
export interface Evidence {
  folded: string;
  /** A property is named in the text or by the payload. */
  namesProperty: boolean;
  /** An offer, a price, rooms, areas or floors are known. */
  hasFacts: boolean;
  /** The payload itself says deal and price, as a source of listings does. */
  isStructured: boolean;
}

const OFFER = stem(
  String.raw`прода[мюєжю]|продаєм|продает|зда[мює]|сда[мюе]|оренда(?!р)|аренда(?!т)|пропону|предлага|for sale|for rent|to let|обмін|обмен`,
);

const WANTED: RegExp[] = [
  whole(
    String.raw`куплю|купимо|купим|зніму|знімемо|зніме|сниму|снимем|снимет|винайму|винаймемо|арендую|орендую|(?:візьму|возьму) (?:в|у) (?:оренду|аренду)|(?:хочу|хочемо|хотим|хоче) (?:зняти|снять|купити|купить|орендувати)`,
  ),
  whole(
    String.raw`(?:шука(?:ю|ємо|є)|ищ(?:у|ем|ет)) (?!(?:порядн|орендар|квартирант|арендатор|мешкан|жильц|співмешк|сусід|сосед|клієнт|покупц|покупат|сім|семью|дівчин|девушк|хлопц|людин|відповід)\p{L}*)(?:\p{L}+[ ,-]+){0,4}?(?:житло|жилье|квартир\p{L}*|кімнат\p{L}*|комнат\p{L}*|будин\p{L}*|дом|хат\p{L}*|офіс|офис|приміщенн\p{L}*|помещени\p{L}*|гараж|ділянк\p{L}*|участок|студі\p{L}*|студи\p{L}*|однушк\p{L}*|двушк\p{L}*|\d)`,
  ),
  whole(
    String.raw`(?:i am |im |we are |were )?(?:looking (?:for|to rent|to buy)|searching for|in search of|need|wanted|want to (?:rent|buy)) ?:? (?!.{0,60}\?)(?!a? ?(?:new )?(?:tenant|flatmate|roommate|housemate|buyer|responsible|quiet|tidy))(?:\S+ ){0,5}?(?:apartments?|flats?|room|house|home|place|studio|condo|\d ?-?bed\p{L}*|\d ?br|accommodation)`,
  ),
];

const OTHER_TRADES: [reason: string, terms: RegExp, atLeast: number][] = [
  [
    'The text advertises a vehicle, not a property.',
    stem(
      String.raw`авто(?:мобіл|мобил)|автівк|автомат(?!ичн)|механіка|механика|пробіг|пробег|mileage|двигун|двигател|engine|кпп|розмитнен|растаможен|седан|кросовер|кроссовер|хетчбек|універсал|бензин|дизел|diesel|petrol|л\.с|к\.с|обєм двиг|volkswagen|passat|golf|skoda|octavia|bmw|audi|toyota|camry|renault|ford|hyundai|daewoo|lanos|ланос|шкода|фольксваген|тойота|рено|sedan|hatchback|техогляд|шини|шины|гума|резина|мотоцикл|скутер`,
      'gu',
    ),
    2,
  ],
  [
    'The text offers a job, not a property.',
    stem(
      String.raw`ваканс|зарплат|зарабітн|заробітн|заработн|salary|wage|hiring|job|requirements|резюме|resume|cv(?!\p{L})|графік роботи|график работы|повна зайнят|полная занят|офіційне працевлаш|официальное трудоустр|досвід роботи|опыт работы|потрібн\p{L}+ (?:менеджер|продав|водій|кухар|офіціант|робітник|працівник|бариста|адміністратор|покоївк)|требу[юе]т\p{L}+ (?:менеджер|продав|водител|повар|официант|рабоч|сотрудник|администратор|горничн)|шукаємо в команду|ищем в команду|we are looking for a`,
      'gu',
    ),
    2,
  ],
  [
    'The text advertises easy money or gambling, not a property.',
    stem(
      String.raw`казино|casino|крипто|crypto|bitcoin|біткоїн|ставки|бонус|bonus|заробіток|заработок|пасивн\p{L}+ дохід|пассивн\p{L}+ доход|earn money|work from home|click here|тисни|переходь|переходи по ссылк|за посиланням|виграв|выиграл|подарунк\p{L} карт|free money|mlm|без вкладень|без вложений|инвестируй|інвестуй`,
      'gu',
    ),
    2,
  ],
  [
    'The text promotes goods, not a property.',
    stem(
      String.raw`розпродаж|распродаж|знижк|скидк|акці[яї]|акция|асортимент|ассортимент|sale starts|discount|new collection|колекці`,
      'gu',
    ),
    2,
  ],
  [
    'The text advertises a service, not a property.',
    stem(
      String.raw`послуги|услуги|під ключ|под ключ|клінінг|клининг|прибирання квартир|уборка квартир|ремонт квартир|ремонт і оздоблення|вантажн|грузчик|грузоперевоз|переїзди|переезды|вивіз|вывоз|сантехнік|сантехник|електрик(?!а)|электрик(?!а)|виїзд майстра|выезд мастера|безкоштовний замір|cleaning service|moving service|we clean|our team of|майстер|мастер на час`,
      'gu',
    ),
    2,
  ],
];

const MESSAGE = stem(
  String.raw`чи актуальн|ще актуальн|еще актуальн|is (?:it|this|the \p{L}+) still available|як справи|как дела|how are you|тестове повідомлення|тестовое сообщение`,
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
  for (const [reason, terms, atLeast] of OTHER_TRADES) {
    const hits = new Set(folded.match(terms) ?? []).size;
    if (hits >= (offersProperty ? atLeast * 3 : atLeast)) return reason;
  }
  if (MESSAGE.test(folded) && !OFFER.test(folded)) {
    return 'The text is a message to someone, not an offer.';
  }
  if (namesProperty || isStructured) return null;
  return hasFacts
    ? 'The text offers something, but names no property.'
    : 'The text names no property and makes no offer.';
}
