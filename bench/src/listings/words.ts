import { createRandom, type Random } from './random.ts';

export type Language = 'uk' | 'en';

/** Number of words in each language. */
export const VOCABULARY = 50_000;

/** Common words of listings, in descending order of frequency. */
const COMMON: Record<Language, readonly string[]> = {
  uk: (
    'поруч ремонт центр кухня балкон меблі світла затишна новий ліфт школа парк опалення садочок техніка ' +
    'паркінг тиха охорона вікна двір зупинка документи цегляний лоджія комора зручна простора панорамна ' +
    'підлога тепла вбудована власник терміново торг вигідна інвестиція іпотека розстрочка новобудова сталінка ' +
    'чешка студія мансарда тераса гараж город криниця сад баня камін басейн сауна спортзал супермаркет ринок ' +
    'лікарня аптека метро трамвай вокзал озеро річка ліс гора краєвид схід захід південь північ плитка паркет ' +
    'ламінат шпалери двері домофон консьєрж лічильник бойлер котел кондиціонер холодильник пральна посуд диван ' +
    'ліжко шафа дзеркало душ ванна санвузол роздільний суміжний прохідна кутова дворівнева євродвушка'
  ).split(' '),
  en: (
    'near renovated centre kitchen balcony furnished bright cosy new lift school park heating kindergarten ' +
    'appliances parking quiet security windows yard stop documents brick loggia pantry convenient spacious ' +
    'panoramic floor warm fitted owner urgent negotiable profitable investment mortgage instalments development ' +
    'studio attic terrace garage garden well sauna fireplace pool gym supermarket market hospital pharmacy metro ' +
    'tram station lake river forest hill view east west south north tiles parquet laminate wallpaper doors ' +
    'intercom concierge meter boiler conditioner fridge washing dishes sofa bed wardrobe mirror shower bath'
  ).split(' '),
};

const SYLLABLES: Record<Language, readonly string[]> = {
  uk: 'ба ве ги до жа зе ку ла ми но па ре си ту фо хи ця чу ша ще'.split(' '),
  en: 'ba ve gi do ja ze ku la mi no pa re si tu fo hi ca chu sha lo'.split(' '),
};

const vocabularies: Record<Language, readonly string[]> = {
  uk: createWords('uk'),
  en: createWords('en'),
};

/**
 * Returns the word at the given frequency rank, starting at 0. Random words, which stand in for names of estates and
 * builders, follow the real words.
 * @throws RangeError for a rank beyond the vocabulary.
 */
export function getWord(language: Language, rank: number): string {
  const word = vocabularies[language][rank];
  if (word === undefined)
    throw new RangeError(
      `The vocabulary has ${VOCABULARY} words, so the rank ${rank} does not exist`,
    );
  return word;
}

function createWords(language: Language): string[] {
  const random = createRandom(SYLLABLES[language].length, language === 'uk' ? 1 : 2);
  const words = new Set(COMMON[language]);
  while (words.size < VOCABULARY) {
    const length = random.between(2, 5);
    const syllables = Array.from({ length }, () => random.pick(SYLLABLES[language]));
    words.add(syllables.join(''));
  }
  return [...words];
}

export type City = {
  name: string;
  /** Locative form, after "у". */
  locative: string;
  english: string;
  /** Percentage of all listings. */
  percent: number;
  latitude: number;
  longitude: number;
  districts: readonly string[];
};

const createCity = (
  names: readonly [name: string, locative: string, english: string],
  percent: number,
  [latitude, longitude]: readonly [number, number],
  ...districts: string[]
): City => {
  const [name, locative, english] = names;
  return { name, locative, english, percent, latitude, longitude, districts };
};

/** Cities. Their percentages add up to 100. */
export const CITIES: readonly City[] = [
  createCity(
    ['Київ', 'Києві', 'Kyiv'],
    26,
    [50.45, 30.52],
    'Оболонь',
    'Поділ',
    'Печерськ',
    'Позняки',
  ),
  createCity(['Львів', 'Львові', 'Lviv'], 10, [49.84, 24.03], 'Сихів', 'Личаків', 'Левандівка'),
  createCity(['Одеса', 'Одесі', 'Odesa'], 12, [46.48, 30.73], 'Аркадія', 'Молдаванка', 'Черемушки'),
  createCity(
    ['Харків', 'Харкові', 'Kharkiv'],
    10,
    [49.99, 36.23],
    'Салтівка',
    'Олексіївка',
    'Нагірний',
  ),
  createCity(
    ['Дніпро', 'Дніпрі', 'Dnipro'],
    9,
    [48.46, 35.04],
    'Перемога',
    'Тополя',
    'Новокодацький',
  ),
  createCity(['Вінниця', 'Вінниці', 'Vinnytsia'], 6, [49.23, 28.47], 'Вишенька', 'Замостя'),
  createCity(
    ['Івано-Франківськ', 'Івано-Франківську', 'Ivano-Frankivsk'],
    5,
    [48.92, 24.71],
    'Пасічна',
  ),
  createCity(['Тернопіль', 'Тернополі', 'Ternopil'], 5, [49.55, 25.59], 'Дружба', 'Східний'),
  createCity(['Ужгород', 'Ужгороді', 'Uzhhorod'], 4, [48.62, 22.29], 'Новий район', 'Боздош'),
  createCity(['Чернівці', 'Чернівцях', 'Chernivtsi'], 4, [48.29, 25.94], 'Садгора', 'Проспект'),
  createCity(['Полтава', 'Полтаві', 'Poltava'], 3, [49.59, 34.55], 'Алмазний', 'Левада'),
  createCity(['Рівне', 'Рівному', 'Rivne'], 2, [50.62, 26.25], 'Північний', 'Ювілейний'),
  createCity(['Луцьк', 'Луцьку', 'Lutsk'], 1, [50.75, 25.33], 'Вишків', 'Гуща'),
  createCity(
    ['Кам’янець-Подільський', 'Кам’янці-Подільському', 'Kamianets-Podilskyi'],
    1,
    [48.68, 26.58],
  ),
  createCity(['Ковель', 'Ковелі', 'Kovel'], 1, [51.21, 24.71]),
  createCity(['Умань', 'Умані', 'Uman'], 1, [48.75, 30.22]),
];

export const STREETS: readonly string[] = [
  'Садова',
  'Зелена',
  'Степова',
  'Лісова',
  'Озерна',
  'Шкільна',
  'Весняна',
  'Вишнева',
  'Каштанова',
  'Липова',
  'Набережна',
  'Паркова',
  'Польова',
  'Соборна',
  'Сонячна',
  'Ставкова',
  'Тополина',
  'Яблунева',
];

/** Returns a random city, weighted by its percentage. */
export function pickCity(random: Random): City {
  let remainingPercent = random.next() * 100;
  for (const candidate of CITIES) {
    remainingPercent -= candidate.percent;
    if (remainingPercent < 0) return candidate;
  }
  return random.pick(CITIES);
}
