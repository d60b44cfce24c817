const parseLetters = (table: string) =>
  new Map(table.split(' ').map((entry) => entry.split(':') as [string, string]));

/** Latin letters for Ukrainian ones, everywhere as inside a word (Cabinet of Ministers resolution 55 of 2010). */
const UKRAINIAN = parseLetters(
  'а:a б:b в:v г:h ґ:g д:d е:e є:ie ж:zh з:z и:y і:i ї:i й:i к:k л:l м:m ' +
    'н:n о:o п:p р:r с:s т:t у:u ф:f х:kh ц:ts ч:ch ш:sh щ:shch ю:iu я:ia',
);

/** Latin letters for Russian ones, as in most texts. */
const RUSSIAN = new Map([...UKRAINIAN, ...parseLetters('г:g е:e ё:e и:i й:i ы:y э:e')]);

/** Returns a key that a Cyrillic name and most of its Latin spellings share, such as "Київ", "Kyiv" and "Kyjiv". */
export function createLatinKey(text: string, language: 'uk' | 'ru' = 'uk'): string {
  const letters = language === 'uk' ? UKRAINIAN : RUSSIAN;
  return Array.from(text.toLowerCase())
    .map((letter) => letters.get(letter) ?? letter)
    .join('')
    .normalize('NFD')
    .replaceAll(/\p{M}|['’ʼ`′ьъ]/gu, '')
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
