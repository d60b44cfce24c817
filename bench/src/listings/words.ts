import { createRandom } from './random.ts';

export type Language = 'uk' | 'en';

/** Number of words of a language. */
export const VOCABULARY = 50_000;

/** Words that are said of most homes, those said most often first. */
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
 * The word of a rank, 0 being said most often: real words first, then what stands for the names of
 * estates, makers and builders, of which there are thousands.
 */
export function getWord(language: Language, rank: number): string {
  const word = vocabularies[language][rank];
  if (word === undefined)
    throw new RangeError(`There are ${VOCABULARY} words, none of rank ${rank}`);
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
