type Forms = Partial<Record<Intl.LDMLPluralRule, string>> & { other: string };

/**
 * Returns a function that writes a number with the form of a word that the language requires.
 * The character `#` in a form stands for the number.
 */
export function createPlural(locale: string): (value: number, forms: Forms) => string {
  const rules = new Intl.PluralRules(locale);
  const numbers = new Intl.NumberFormat(locale);
  return (value, forms) =>
    (forms[rules.select(value)] ?? forms.other).replace('#', numbers.format(value));
}
