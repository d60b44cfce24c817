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

/** Cyrillic letters for Latin ones in Ukrainian words, longest first. */
const CYRILLIC = parseLetters(
  'shch:щ sch:щ zgh:зг zh:ж kh:х ts:ц ch:ч sh:ш yi:ї ye:є yu:ю ya:я yo:йо ie:є iu:ю ia:я ju:ю ja:я ' +
    'a:а b:б c:ц d:д e:е f:ф g:г h:г i:і j:й k:к l:л m:м n:н o:о p:п q:к r:р s:с t:т u:у v:в w:в x:х y:и z:з',
);
const LATIN_LETTERS = new RegExp([...CYRILLIC.keys()].join('|'), 'g');

/** Returns the Cyrillic spelling of a transliterated Ukrainian or Russian word in lower case. */
export function toCyrillic(word: string): string {
  return word
    .normalize('NFD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(LATIN_LETTERS, (letters) => CYRILLIC.get(letters) ?? letters);
}
