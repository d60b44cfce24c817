import { stem, whole } from './patterns.ts';

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
      String.raw`ваканс|зарплат|зарабітн|заробітн|заработн|salary|wage|з/п|зп(?!\p{L})|hiring|job|requirements|(?:робота|работа) (?:в|у|на|за)(?!\p{L})|вахт(?!е)|(?:житло|жилье) (?:безкоштовн|бесплатн|нада|предост)|резюме|resume|cv(?!\p{L})|графік роботи|график работы|повна зайнят|полная занят|офіційне працевлаш|официальное трудоустр|досвід роботи|опыт работы|потрібн\p{L}+ (?:менеджер|продав|водій|кухар|офіціант|робітник|працівник|бариста|адміністратор|покоївк)|требу[юе]т\p{L}+ (?:менеджер|продав|водител|повар|официант|рабоч|сотрудник|администратор|горничн)|шукаємо в команду|ищем в команду|we are looking for a`,
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
      String.raw`розпродаж|распродаж|знижк|скидк|акці[яї]|акция|асортимент|ассортимент|sale starts|discount|new collection|колекці|виробник|производител|доставк|самовив|самовыв|оптом|під замовлення|под заказ|в наявності|в наличии|delivery|warranty`,
      'gu',
    ),
    2,
  ],
  [
    'The text advertises a service, not a property.',
    stem(
      String.raw`послуги|услуги|під ключ|под ключ|клінінг|клининг|прибирання квартир|уборка квартир|ремонт квартир|ремонт ванн|потріб(?:ен|на|ні) (?:майст|бригад)|нуж(?:ен|на|ны) (?:мастер|бригад)|ремонт і оздоблення|вантажн|грузчик|перевез|перевоз|грузоперевоз|переїзд(?!у|ом)|переезд(?!а|ом)|вивіз|вывоз|сантехнік|сантехник|електрик(?!а)|электрик(?!а)|виїзд майстра|выезд мастера|безкоштовний замір|cleaning service|миття вікон|мытье окон|хімчистк|химчистк|дезінфекц|дезинфекц|moving service|we clean|our team of|майстер|мастер на час`,
      'gu',
    ),
    2,
  ],
];

const THINGS = String.raw`диван|ліжк|кроват|шаф|шкаф|стіл(?!\p{L})|стол(?!\p{L})|стілець|стуль|крісл|кресл|комод|матрац|матрас|меблі|мебель|холодильник|пральн|стиральн|бойлер|плит[ау]|телевізор|телевизор|телефон|смартфон|ноутбук|компютер|компьютер|iphone|айфон|генератор|велосипед|самокат|коляск|дрова|щенк|цуцен|кошен|котят|sofa|couch|fridge|wardrobe|mattress|laptop|bike|bicycle|desk`;
const OF_THINGS = String.raw`(?:нов|стар|дитяч|детск|кутов|углов|дубов|деревян|мяк|мягк|білу?|used|new|old|my|б/?у)\p{L}* `;
/** A thing as the object of the selling: "продам диван", though a flat be named further on. */
const GOODS = whole(
  String.raw`(?:прода(?:м|ю|ємо|ем|ється|ется)|віддам|отдам|selling|sell)(?: a)? (?:${OF_THINGS}){0,2}(?:${THINGS})\p{L}*`,
);

const DEALS = String.raw`(?:купівл|покупк|продаж|оренд|аренд|обмін|обмен|оцінк|оценк)\p{L}*`;
/** "Агентство: продаж, оренда, обмін" offers the agent's help, whatever property it names. */
const AGENCY = stem(
  String.raw`(?:агентств|агенці|рієлтор|ріелтор|риелтор|риэлтор|agency|realtor)\p{L}*`,
);
const DEALS_LISTED = stem(String.raw`${DEALS}(?:,|/| та| і| и) ?${DEALS}`);

/** "Построит дом под ключ" offers the building of a house, and no house. */
const BUILDING = whole(
  String.raw`(?:(?:по)?стро(?:ит|им|ю|ят)|(?:по|з)?буду(?:є|ємо|ю|ють)|зв(?:едемо|одимо)|we (?:will |can )?build)(?: \p{L}+){0,3} (?:дом|будин|кот+едж|дач[уі]|бан[юі]|гараж|houses?|homes?)\p{L}*`,
);

/**
 * Which other trade a text is about, as an English sentence; null when it is about none.
 *
 * @param offersProperty Whether a property is named and something is offered, so that more must speak for
 *   the other trade: adverts of flats mention renovation, furniture and cars.
 */
export function otherTrade(folded: string, offersProperty: boolean): string | null {
  if (GOODS.test(folded)) return 'The text promotes goods, not a property.';
  if (AGENCY.test(folded) && DEALS_LISTED.test(folded)) {
    return 'The text advertises a service, not a property.';
  }
  if (BUILDING.test(folded) && !offersProperty) {
    return 'The text advertises a service, not a property.';
  }
  for (const [reason, terms, atLeast] of OTHER_TRADES) {
    const hits = new Set(folded.match(terms) ?? []).size;
    if (hits >= (offersProperty ? atLeast * 3 : atLeast)) return reason;
  }
  return null;
}
