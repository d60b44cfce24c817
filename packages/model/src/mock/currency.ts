/** Written forms of each currency in folded text. Sources of patterns, longest forms first. */
const FORMS: [code: string, forms: string][] = [
  // "Умовні одиниці", conventional units, are dollars in Ukrainian listings.
  [
    'USD',
    String.raw`us\$|usd|\$|долар(?:ів|и|а|ах)?|доллар(?:ов|а|ы|ах)?|долл|дол|dollars?|bucks|бакс(?:ів|ов|и|ы|а)?|у\.? ?[ео](?![\p{L}])\.?|зелен(?:их|ых)`,
  ],
  ['EUR', String.raw`eur(?:os?)?|€|євро|евро`],
  [
    'UAH',
    String.raw`uah|₴|грн|гривень|гривні|гривня|гривна|гривен|гривны|гр(?!\p{L})\.?|hrn|hryvnias?|hryvnia`,
  ],
  ['PLN', String.raw`pln|zł|злотих|злотых`],
  ['GBP', String.raw`gbp|£`],
];

/** A pattern source, without groups of its own, for any currency. */
export const CURRENCY = FORMS.map(([, forms]) => forms).join('|');

const CODES = FORMS.map(([code, forms]): [string, RegExp] => [
  code,
  new RegExp(`^(?:${forms})$`, 'u'),
]);

/** The ISO 4217 code of a form matched by `CURRENCY`, else null. */
export function currencyCode(form: string | undefined): string | null {
  if (form === undefined) return null;
  return CODES.find(([, pattern]) => pattern.test(form))?.[0] ?? null;
}

/** A code a payload gives, if it has the shape of one (three letters). */
export function currencyHint(value: unknown): string | null {
  return typeof value === 'string' && /^[A-Za-z]{3}$/u.test(value) ? value.toUpperCase() : null;
}
