import { compileTable, createPatternTester, readTable } from './text.ts';

/** Keywords of each feature in Ukrainian, Russian and English. */
const FEATURE_PATTERNS = compileTable(readTable('features'));

/** Features whose keywords may contain a denial, such as "без комісії" and "не проти тварин". */
const FEATURES_WITH_DENIAL = new Set(
  'no_commission from_owner needs_renovation no_pets pets_allowed'.split(' '),
);

const matchesPattern = createPatternTester(String.raw`
# A denial directly before the keyword: "без балкона".
denied: (?:^|[^\p{L}])(?:без|крім|кроме|except|немає|нема|нет|no|not|without|не|ні|ни|un|потребує|требует|потрібен|нужен|під|под|needs?|requires?)(?: \p{L}+(?:ого|ої|ого|ой|а|у|ий|ый|ие|я|s|ic))? \|
# A denial directly after the keyword: "ліфта немає".
denied: \|\p{L}* (?:немає|нема|нет|відсутн|отсутств|не працює|не пропон|не предлаг|не розгляд|не рассматр|не работает|поки немає)
unfurnished: unfurnished|немебльован|не мебльован|порожн\p{L}+ квартир|без мебл|без мебел
`);

/** Returns the sorted features that folded text affirms. Omits denied features, such as "без ремонту". */
export function readFeatures(foldedText: string): string[] {
  const isAffirmed = ([feature, pattern]: (typeof FEATURE_PATTERNS)[number]) =>
    foldedText.matchAll(pattern).some(({ 0: keyword, index }) => {
      const end = index + keyword.length;
      const precedingText = foldedText.slice(Math.max(0, index - 28), index);
      const context = `${precedingText}|${foldedText.slice(end, end + 32)}`;
      return FEATURES_WITH_DENIAL.has(feature) || !matchesPattern('denied', context);
    });
  const affirmedFeatures = new Set(FEATURE_PATTERNS.filter(isAffirmed).map(([feature]) => feature));
  if (affirmedFeatures.has('no_pets')) affirmedFeatures.delete('pets_allowed');
  if (matchesPattern('unfurnished', foldedText)) affirmedFeatures.delete('furnished');
  return [...affirmedFeatures].toSorted();
}
