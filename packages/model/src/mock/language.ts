/** Language of a text. `mixed` if no language has a clear majority. */
export type Language = 'uk' | 'ru' | 'en' | 'mixed';

const MAX_WORDS = 2_000;

/** Letters, common words and stems that occur in one of the two languages only, folded. */
const UKRAINIAN =
  /[іїєґ]|^(?:та|що|але|або|від|після|біля|поруч|здам|здаю|кімната|поверх|поверс|будин|продає|подобов|власник|опален|окрем|велик|гарн|можна|тільки|зараз|тепер|дуже|долар|тварин|дзвон|шука|житло|вулиц|нов(?:ої|а|е|ого)$)/u;
const RUSSIAN =
  /[ыэъ]|^(?:и|или|есть|что|но|от|после|возле|рядом|сда[мюе]|продае|(?:одно|двух|трех|четырех)?комнат|этаж|цен[аеу]$|улиц|мебел|хозя|собственн|звонит|можно|только|сейчас|теперь|отоплен|очень|посуточ|сут|больш|хорош|месяц|долл|все|также|уже|нет|нов(?:ый|ая|ое|ой)$)/u;

/** Latin words that listings in every language use. */
const NAMES = /^(?:.|wi|fi|wifi|ikea|led|tv|smart|ok|usd|uah|eur|bosch|lg|samsung)$/u;

/** Minimum share of a second language in a mixed text. */
const MIN_MIXED_SHARE = 0.25;

/**
 * Detects the language of a folded text by its letters and common words. A text without letters counts as Ukrainian,
 * the main language of the platform.
 */
export function detectLanguage(folded: string): Language {
  const words = (folded.match(/\p{L}+/gu) ?? []).slice(0, MAX_WORDS);
  const count = (matches: (word: string) => boolean) => words.filter(matches).length;
  const cyrillic = count((word) => /[а-яієїґ]/u.test(word));
  const english = count((word) => /^[a-z]/u.test(word) && !NAMES.test(word));
  const all = cyrillic + english;
  if (all > 0 && english / all > MIN_MIXED_SHARE) {
    return cyrillic / all < MIN_MIXED_SHARE ? 'en' : 'mixed';
  }
  const ukrainian = count((word) => UKRAINIAN.test(word));
  const russian = count((word) => RUSSIAN.test(word) && !UKRAINIAN.test(word));
  const minor = Math.min(ukrainian, russian);
  if (minor >= 2 && minor / (ukrainian + russian) >= MIN_MIXED_SHARE) return 'mixed';
  return russian > ukrainian ? 'ru' : 'uk';
}
