/** Latin letters for Ukrainian ones; word beginnings differ. Cabinet of Ministers resolution 55 of 2010. */
const UKRAINIAN: Record<string, string> = {
  а: 'a',
  б: 'b',
  в: 'v',
  г: 'h',
  ґ: 'g',
  д: 'd',
  е: 'e',
  є: 'ie',
  ж: 'zh',
  з: 'z',
  и: 'y',
  і: 'i',
  ї: 'i',
  й: 'i',
  к: 'k',
  л: 'l',
  м: 'm',
  н: 'n',
  о: 'o',
  п: 'p',
  р: 'r',
  с: 's',
  т: 't',
  у: 'u',
  ф: 'f',
  х: 'kh',
  ц: 'ts',
  ч: 'ch',
  ш: 'sh',
  щ: 'shch',
  ь: '',
  ю: 'iu',
  я: 'ia',
  "'": '',
};
/** Latin letters for Russian ones, as in passports until 2010 and most texts. */
const RUSSIAN: Record<string, string> = {
  ...UKRAINIAN,
  г: 'g',
  е: 'e',
  ё: 'e',
  и: 'i',
  й: 'i',
  ъ: '',
  ы: 'y',
  э: 'e',
};

/**
 * Returns a key that Latin spellings of one Cyrillic word share: "kyiv", "kiev" and "Київ" give different keys only
 * where their letters do ("kiv" and "kev").
 */
export function createLatinKey(text: string, language: 'uk' | 'ru' = 'uk'): string {
  const letters = language === 'uk' ? UKRAINIAN : RUSSIAN;
  return Array.from(text.toLowerCase())
    .map((letter) => letters[letter] ?? letter)
    .join('')
    .normalize('NFD')
    .replaceAll(/\p{M}|['’ʼ`′]/gu, '')
    .replaceAll(/[^a-z0-9]+/g, ' ')
    .trim()
    .replaceAll('shch', 'sch')
    .replaceAll(/kh|x/g, 'h')
    .replaceAll(/[yj]/g, 'i')
    .replaceAll('w', 'v')
    .replaceAll('g', 'h')
    .replaceAll(/i([aeou])/g, '$1')
    .replaceAll(/(.)\1+/g, '$1');
}
