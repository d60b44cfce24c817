import { compilePattern, compileStems, compileTable, compileWords } from './text.ts';

/**
 * Keywords of off-topic texts, by reason for rejection. One keyword is not enough: listings also mention renovation and
 * furniture.
 */
const OFF_TOPIC_PATTERNS = compileTable(String.raw`
The text advertises a vehicle, not a property.: авто(?:мобіл|мобил)|автівк|автомат(?!ичн)|механіка|механика|пробіг|пробег|mileage|двигун|двигател|engine|кпп|розмитнен|растаможен|седан|кросовер|кроссовер|хетчбек|універсал|бензин|дизел|diesel|petrol|л\.с|к\.с|обєм двиг|volkswagen|passat|golf|skoda|octavia|bmw|audi|toyota|camry|renault|ford|hyundai|daewoo|lanos|ланос|шкода|фольксваген|тойота|рено|sedan|hatchback|техогляд|шини|шины|гума|резина|мотоцикл|скутер
The text offers a job, not a property.: ваканс|зарплат|зарабітн|заробітн|заработн|salary|wage|з/п|зп(?!\p{L})|hiring|job|requirements|(?:робота|работа) (?:в|у|на|за)(?!\p{L})|вахт(?!е)|(?:житло|жилье) (?:безкоштовн|бесплатн|нада|предост)|резюме|resume|cv(?!\p{L})|графік роботи|график работы|повна зайнят|полная занят|офіційне працевлаш|официальное трудоустр|досвід роботи|опыт работы|потрібн\p{L}+ (?:менеджер|продав|водій|кухар|офіціант|робітник|працівник|бариста|адміністратор|покоївк)|требу[юе]т\p{L}+ (?:менеджер|продав|водител|повар|официант|рабоч|сотрудник|администратор|горничн)|шукаємо в команду|ищем в команду|we are looking for a
The text advertises easy money or gambling, not a property.: казино|casino|крипто|crypto|bitcoin|біткоїн|ставки|бонус|bonus|заробіток|заработок|пасивн\p{L}+ дохід|пассивн\p{L}+ доход|earn money|work from home|click here|тисни|переходь|переходи по ссылк|за посиланням|виграв|выиграл|подарунк\p{L} карт|free money|mlm|без вкладень|без вложений|инвестируй|інвестуй
The text promotes goods, not a property.: розпродаж|распродаж|знижк|скидк|акці[яї]|акция|асортимент|ассортимент|sale starts|discount|new collection|колекці|виробник|производител|доставк|самовив|самовыв|оптом|під замовлення|под заказ|в наявності|в наличии|delivery|warranty
The text advertises a service, not a property.: послуги|услуги|під ключ|под ключ|клінінг|клининг|прибирання квартир|уборка квартир|ремонт квартир|ремонт ванн|потріб(?:ен|на|ні) (?:майст|бригад)|нуж(?:ен|на|ны) (?:мастер|бригад)|ремонт і оздоблення|вантажн|грузчик|перевез|перевоз|грузоперевоз|переїзд(?!у|ом)|переезд(?!а|ом)|вивіз|вывоз|сантехнік|сантехник|електрик(?!а)|электрик(?!а)|виїзд майстра|выезд мастера|безкоштовний замір|cleaning service|миття вікон|мытье окон|хімчистк|химчистк|дезінфекц|дезинфекц|moving service|we clean|our team of|майстер|мастер на час
`);
const MIN_TERMS = 2;
/** Minimum number of keywords if the text also offers a property. */
const MIN_TERMS_BESIDE_OFFER = 6;

const GOODS_STEMS = String.raw`диван|ліжк|кроват|шаф|шкаф|стіл(?!\p{L})|стол(?!\p{L})|стілець|стуль|крісл|кресл|комод|матрац|матрас|меблі|мебель|холодильник|пральн|стиральн|бойлер|плит[ау]|телевізор|телевизор|телефон|смартфон|ноутбук|компютер|компьютер|iphone|айфон|генератор|велосипед|самокат|коляск|дрова|щенк|цуцен|кошен|котят|sofa|couch|fridge|wardrobe|mattress|laptop|bike|bicycle|desk`;
const GOODS_ADJECTIVES = String.raw`(?:нов|стар|дитяч|детск|кутов|углов|дубов|деревян|мяк|мягк|білу?|used|new|old|my|б/?у)\p{L}* `;

/** Goods as the object of the verb "sell", such as "продам диван", even if the text names a flat later. */
const GOODS_OFFER_PATTERN = compilePattern(
  String.raw`\<(?:(?:прода(?:м|ю|ємо|ем|ється|ется)|віддам|отдам|selling|sell)(?: a)? (?:${GOODS_ADJECTIVES}){0,2}(?:${GOODS_STEMS})\p{L}*)\>`,
);

const OFFER_PATTERN = compileStems(
  String.raw`прода[мюєжю]|продаєм|продает|зда[мює]|сда[мюе]|оренда(?!р)|аренда(?!т)|пропону|предлага|for sale|for rent|to let|обмін|обмен`,
);

const WANTED_PATTERNS = [
  String.raw`(?:куплю|купимо|купим|зніму|знімемо|зніме|сниму|снимем|снимет|винайму|винаймемо|арендую|орендую)|(?:візьму|возьму) (?:в|у) (?:оренду|аренду)|(?:хочу|хочемо|хотим|хоче) (?:зняти|снять|купити|купить|орендувати)`,
  String.raw`(?:шука(?:ю|ємо|є)|ищ(?:у|ем|ет)) (?!(?:порядн|орендар|квартирант|арендатор|мешкан|жильц|співмешк|сусід|сосед|клієнт|покупц|покупат|сім|семью|дівчин|девушк|хлопц|людин|відповід)\p{L}*)(?:\p{L}+[ ,-]+){0,4}?(?:житло|жилье|квартир\p{L}*|кімнат\p{L}*|комнат\p{L}*|будин\p{L}*|дом|хат\p{L}*|офіс|офис|приміщенн\p{L}*|помещени\p{L}*|гараж|ділянк\p{L}*|участок|студі\p{L}*|студи\p{L}*|однушк\p{L}*|двушк\p{L}*|\d)`,
  String.raw`(?:i am |im |we are |were )?(?:looking (?:for|to rent|to buy)|searching for|in search of|need|wanted|want to (?:rent|buy)) ?:? (?!.{0,60}\?)(?!a? ?(?:new )?(?:tenant|flatmate|roommate|housemate|buyer|responsible|quiet|tidy))(?:\S+ ){0,5}?(?:apartments?|flats?|room|house|home|place|studio|condo|\d ?-?bed\p{L}*|\d ?br|accommodation)`,
].map((source) => compileWords(source));

const findPosition = (text: string, pattern: RegExp): number => {
  const position = text.search(pattern);
  return position < 0 ? Infinity : position;
};

/**
 * Returns the reason why the text is not a listing, as an English sentence, or null if the text is a listing. A wanted
 * ad ("looking for a flat") is not a listing.
 * @param evidence.mentionsProperty Whether the text or the payload names a property, or the payload is structured.
 * @param evidence.hasFacts Whether a deal type, a price or a total area is known.
 */
export function explainRejection(
  foldedText: string,
  { mentionsProperty, hasFacts }: { mentionsProperty: boolean; hasFacts: boolean },
): string | null {
  const wantedPosition = Math.min(
    ...WANTED_PATTERNS.map((pattern) => findPosition(foldedText, pattern)),
  );
  const offerPosition = findPosition(foldedText, OFFER_PATTERN);
  if (wantedPosition < offerPosition)
    return 'The writer looks for a property and does not offer one.';
  if (GOODS_OFFER_PATTERN.test(foldedText)) return 'The text promotes goods, not a property.';
  const minTerms =
    mentionsProperty && offerPosition < Infinity ? MIN_TERMS_BESIDE_OFFER : MIN_TERMS;
  const topic = OFF_TOPIC_PATTERNS.find(
    ([, terms]) => new Set(foldedText.match(terms) ?? []).size >= minTerms,
  );
  if (topic !== undefined) return topic[0];
  if (mentionsProperty) return null;
  return hasFacts
    ? 'The text makes an offer, but does not name a property.'
    : 'The text does not name a property or make an offer.';
}
