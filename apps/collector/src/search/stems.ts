import { stemmer as stemEnglish } from '@orama/stemmers/english';
import { stemmer as stemRussian } from '@orama/stemmers/russian';
import { stemmer as stemUkrainian } from '@orama/stemmers/ukrainian';
import { createLatinKey, toCyrillic } from '../places/transliteration.ts';
import { truncateText } from '../text.ts';

/** Words that nearly every text has. Texts are stored without them, and queries ignore them. */
export const STOP_WORDS = new Set(
  (
    'в у на з із зі до від для по під біля поряд поруч і й та або чи за с со из от к ко под возле около рядом и или а не ' +
    'the a an in at for to of with near and or by from v u s na z iz do dlya bilya pid pod vid ot'
  ).split(' '),
);

/** Longer words are truncated: PostgreSQL rejects terms above 2 kB. */
const MAX_WORD_LENGTH = 60;

/** Shorter stems of longer words are mistakes of a stemmer, such as "оф" for "офіси". */
const MIN_STEM_LENGTH = 3;

/** Vowel that other forms of a word lack, as in "будинок" and "будинку". */
const FLEETING_VOWEL = /(?<=[бвгґджзклмнпрстфхцчшщ])[оеі](?=[кц]$)/u;

const MAX_CACHED_WORDS = 20_000;
const cachedStems = new Map<string, readonly string[]>();

/**
 * Returns the stems of a normalized word in each language it may belong to, in Latin letters: "квартири", "квартиры"
 * and "kvartyra" share one. Words with digits, and in other scripts, are not stemmed.
 */
export function stemWord(word: string): readonly string[] {
  const cached = cachedStems.get(word);
  if (cached !== undefined) return cached;
  const stems = computeStems(truncateText(word, MAX_WORD_LENGTH));
  // Most words of a language occur again before the cache is full.
  if (cachedStems.size >= MAX_CACHED_WORDS) cachedStems.clear();
  cachedStems.set(word, stems);
  return stems;
}

/** Endings of Ukrainian words in another case, whose stems differ: "ділянка" and "ділянці", "лінія" and "лінії". */
const CASE_ENDINGS: readonly [ending: RegExp, ...otherEndings: string[]][] = [
  [/ка$/u, 'ці'],
  [/га$/u, 'зі'],
  [/ха$/u, 'сі'],
  [/ці$/u, 'ка'],
  [/зі$/u, 'га'],
  [/сі$/u, 'ха'],
  [/і(?:я|ї|ю|єю|ям|ях|ями)$/u, 'ія', 'ії'],
];

/** Returns the stems of a normalized word of a query, also those of cases whose stem differs. */
export function stemQueryWord(word: string): readonly string[] {
  const [ending, ...otherEndings] = CASE_ENDINGS.find(([pattern]) => pattern.test(word)) ?? [];
  if (ending === undefined) return stemWord(word);
  const otherForms = otherEndings.map((other) => word.replace(ending, other));
  return [...new Set([word, ...otherForms].flatMap(stemWord))];
}

function computeStems(word: string): string[] {
  if (/\d/.test(word)) return [word.replaceAll(/\p{L}+/gu, stemKey)];
  const stems = /\p{Script=Cyrillic}/u.test(word)
    ? stemCyrillic(word)
    : [stemEnglish(word), ...stemCyrillic(toCyrillic(word))];
  const keys = stems.map((stem) => stemKey(stem.replace(FLEETING_VOWEL, '')));
  const maxLength = Math.max(...keys.map((key) => key.length));
  return [...new Set(keys.filter((key) => key.length >= Math.min(maxLength, MIN_STEM_LENGTH)))];
}

function stemCyrillic(word: string): string[] {
  return /[ыэъ]/.test(word) ? [stemRussian(word)] : [stemUkrainian(word), stemRussian(word)];
}

/** Returns a word or its beginning in the Latin letters of stems. */
export const stemKey = (stem: string) =>
  createLatinKey(stem.replaceAll('ł', 'l'), 'ru').replaceAll(' ', '') || stem;
