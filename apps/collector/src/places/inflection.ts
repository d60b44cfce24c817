type Language = 'uk' | 'ru';

/** Ending of the nominative, and endings of the genitive, dative, accusative, instrumental and locative. */
type Declension = readonly [ending: string, cases: string];

/** Declensions by language. All that match a word apply: an ending does not distinguish nouns from adjectives. */
const DECLENSIONS: Record<Language, readonly Declension[]> = {
  uk: [
    ['ий', 'ого ому ий им ому'],
    ['ій', 'ього ьому ій ім ьому'],
    ['е', 'ого ому е им ому'],
    ['а', 'ої ій у ою ій'],
    ['і', 'их им і ими их'],
    ['ка', 'ки ці ку кою ці'],
    ['га', 'ги зі гу гою зі'],
    ['ха', 'хи сі ху хою сі'],
    ['а', 'и і у ою і'],
    ['ія', 'ії ії ію ією ії'],
    ['я', 'і і ю ею і'],
    ['я', 'я ю я ям ї'],
    ['я', 'я ю я ям і'],
    ['ів', 'ова ову ів овом ові'],
    ['їв', 'єва єву їв євом єві'],
    ['їв', 'єва єву їв євом єву'],
    ['ець', 'ця цю ець цем ці'],
    ['іль', 'оля олю іль олем олі'],
    ['інь', 'еня еню інь енем ені'],
    ['ь', 'я ю ь ем і'],
    ['ь', 'і і ь ю і'],
    ['іг', 'огу огу іг огом озі'],
    ['іг', 'ога огу іг огом огові'],
    ['ок', 'ка ку ок ком ку'],
    ['о', 'а у о ом і'],
    ['о', 'а у о ом у'],
    ['е', 'я ю е ем і'],
    ['е', 'а у е ем і'],
    ['и', 'ів ам и ами ах'],
    ['и', ' ам и ами ах'],
    ['і', 'ів ям і ями ях'],
    ['і', 'ів ам і ами ах'],
    ['ь', 'я ю ь ем ю'],
    ['', 'а у  ом і'],
    ['', 'у у  ом у'],
    ['', 'а у  ом у'],
  ],
  ru: [
    ['ий', 'ого ому ий им ом'],
    ['ый', 'ого ому ый ым ом'],
    ['ой', 'ого ому ой ым ом'],
    ['ое', 'ого ому ое ым ом'],
    ['ее', 'его ему ее им ем'],
    ['ая', 'ой ой ую ой ой'],
    ['яя', 'ей ей юю ей ей'],
    ['ие', 'их им ие ими их'],
    ['ые', 'ых ым ые ыми ых'],
    ['ия', 'ии ии ию ией ии'],
    ['ье', 'ья ью ье ьем ье'],
    ['а', 'ы е у ой е'],
    ['а', 'и е у ой е'],
    ['а', 'ы е у ей е'],
    ['я', 'и е ю ей е'],
    ['ец', 'ца цу ец цом це'],
    ['ец', 'ца цу ец цем це'],
    ['ок', 'ка ку ок ком ке'],
    ['й', 'я ю й ем е'],
    ['овь', 'ви ви овь овью ви'],
    ['ь', 'я ю ь ем е'],
    ['ь', 'и и ь ью и'],
    ['о', 'а у о ом е'],
    ['е', 'я ю е ем е'],
    ['ы', 'ов ам ы ами ах'],
    ['ы', ' ам ы ами ах'],
    ['и', 'ов ам и ами ах'],
    ['и', ' ам и ами ах'],
    ['и', 'ей ям и ями ях'],
    ['', 'а у  ом е'],
    ['', 'а у  ым е'],
  ],
};

const CASE_COUNT = 5;

const getSplitDeclensions = (language: Language) =>
  DECLENSIONS[language].map(([ending, cases]) => ({ ending, caseEndings: cases.split(' ') }));
const SPLIT_DECLENSIONS = { uk: getSplitDeclensions('uk'), ru: getSplitDeclensions('ru') };

/**
 * Returns the forms of a place name that a text may contain, without the nominative. Some forms are not real words,
 * because every declension that matches the ending applies.
 * @param name Normalized words, separated by spaces.
 */
export function inflect(name: string, language: Language): Set<string> {
  const forms = new Set<string>();
  const words = name.split(' ').map((word) => declineWord(word, language));
  for (let index = 0; index < CASE_COUNT; index += 1) {
    let phrases = [''];
    for (const declensions of words) {
      const wordForms = new Set(declensions.map((cases) => cases[index] ?? ''));
      phrases = phrases.flatMap((phrase) =>
        Array.from(wordForms, (form) => `${phrase} ${form}`.trimStart()),
      );
    }
    for (const phrase of phrases) forms.add(phrase);
  }
  forms.delete(name);
  return forms;
}

/** Returns the five cases of a word: unchanged, and in each declension that fits. */
function declineWord(word: string, language: Language): string[][] {
  const unchanged = Array<string>(CASE_COUNT).fill(word);
  if (!/\p{L}{2}/u.test(word)) return [unchanged];
  const endsWithConsonant = /[^аеиоуюяіїєыьйэё]$/u.test(word);
  const declinedForms = SPLIT_DECLENSIONS[language]
    .filter(({ ending }) => (ending === '' ? endsWithConsonant : word.endsWith(ending)))
    .map(({ ending, caseEndings }) => {
      const stem = word.slice(0, word.length - ending.length);
      return caseEndings.map((caseEnding) => stem + caseEnding);
    });
  return [unchanged, ...declinedForms];
}
