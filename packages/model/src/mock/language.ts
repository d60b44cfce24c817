/** Detected language. `mixed` if no language has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

const MAX_WORDS = 2_000;

/** Folded letters, common words and stems that occur in only one of Ukrainian and Russian. */
const UKRAINIAN_WORD_PATTERN =
  /[іїєґ]|^(?:та|що|але|або|від|після|біля|поруч|здам|здаю|кімната|поверх|поверс|будин|продає|подобов|власник|опален|окрем|велик|гарн|можна|тільки|зараз|тепер|дуже|долар|тварин|дзвон|шука|житло|вулиц|нов(?:ої|а|е|ого)$)/u;
const RUSSIAN_WORD_PATTERN =
  /[ыэъ]|^(?:и|или|есть|что|но|от|после|возле|рядом|сда[мюе]|продае|(?:одно|двух|трех|четырех)?комнат|этаж|цен[аеу]$|улиц|мебел|хозя|собственн|звонит|можно|только|сейчас|теперь|отоплен|очень|посуточ|сут|больш|хорош|месяц|долл|все|также|уже|нет|нов(?:ый|ая|ое|ой)$)/u;

/** Latin words that listings in every language use. */
const COMMON_LATIN_WORD_PATTERN =
  /^(?:.|wi|fi|wifi|ikea|led|tv|smart|ok|usd|uah|eur|bosch|lg|samsung)$/u;

/** Minimum share of a second language in a mixed text. */
const MIN_MIXED_SHARE = 0.25;

/**
 * Detects the language of a folded text by its letters and common words. A text without evidence counts as Ukrainian,
 * the main language of the platform.
 */
export function detectLanguage(foldedText: string): Language {
  const words = (foldedText.match(/\p{L}+/gu) ?? []).slice(0, MAX_WORDS);
  const countWords = (isMatch: (word: string) => boolean) => words.filter(isMatch).length;
  const cyrillicCount = countWords((word) => /[а-яієїґ]/u.test(word));
  const englishCount = countWords(
    (word) => /^[a-z]/u.test(word) && !COMMON_LATIN_WORD_PATTERN.test(word),
  );
  const wordCount = cyrillicCount + englishCount;
  if (wordCount > 0 && englishCount / wordCount > MIN_MIXED_SHARE) {
    return cyrillicCount / wordCount < MIN_MIXED_SHARE ? 'en' : 'mixed';
  }
  const ukrainianCount = countWords((word) => UKRAINIAN_WORD_PATTERN.test(word));
  const russianCount = countWords(
    (word) => RUSSIAN_WORD_PATTERN.test(word) && !UKRAINIAN_WORD_PATTERN.test(word),
  );
  const minorityCount = Math.min(ukrainianCount, russianCount);
  if (minorityCount >= 2 && minorityCount / (ukrainianCount + russianCount) >= MIN_MIXED_SHARE)
    return 'mixed';
  return russianCount > ukrainianCount ? 'ru' : 'uk';
}
