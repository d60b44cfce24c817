import { compileTable, createPatternTester, readTable } from './text.ts';

/** Keywords of each feature in Ukrainian, Russian and English. */
const FEATURES = compileTable(readTable('features'));

/** Features whose keywords contain a denial themselves, such as "без комісії". */
const HAS_DENIAL = new Set(
  'no_commission from_owner needs_renovation no_pets pets_allowed'.split(' '),
);

const matches = createPatternTester(String.raw`
# A denial directly before the keyword: "без балкона".
denied: (?:^|[^\p{L}])(?:без|крім|кроме|except|немає|нема|нет|no|not|without|не|ні|ни|un|потребує|требует|потрібен|нужен|під|под|needs?|requires?)(?: \p{L}+(?:ого|ої|ого|ой|а|у|ий|ый|ие|я|s|ic))? \|
# A denial directly after the keyword: "ліфта немає".
denied: \|\p{L}* (?:немає|нема|нет|відсутн|отсутств|не працює|не пропон|не предлаг|не розгляд|не рассматр|не работает|поки немає)
unfurnished: unfurnished|немебльован|не мебльован|порожн\p{L}+ квартир|без мебл|без мебел
`);

/** Returns the features that a folded text affirms, sorted. Omits denied features, such as "без ремонту". */
export function readFeatures(folded: string): string[] {
  const isAffirmed = ([feature, pattern]: (typeof FEATURES)[number]) =>
    folded.matchAll(pattern).some(({ 0: keyword, index }) => {
      const end = index + keyword.length;
      const before = folded.slice(Math.max(0, index - 28), index);
      const context = `${before}|${folded.slice(end, end + 32)}`;
      return HAS_DENIAL.has(feature) || !matches('denied', context);
    });
  const found = new Set(FEATURES.filter(isAffirmed).map(([feature]) => feature));
  if (found.has('no_pets')) found.delete('pets_allowed');
  if (matches('unfurnished', folded)) found.delete('furnished');
  return [...found].toSorted();
}
