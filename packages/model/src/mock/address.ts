import { rule } from './patterns.ts';
/** Words for streets and squares; the longer forms stand before what they begin with. */
const KINDS = [
  String.raw`вул(?:иц[яіюі]|\.)`,
  String.raw`вул(?= )`,
  String.raw`ул(?:иц[аеуы]|\.)`,
  String.raw`ул(?= )`,
  String.raw`просп(?:ект[іуае]?|\.)`,
  String.raw`пр(?:-т|\.)`,
  String.raw`бул(?:ьвар[іуае]?|\.)`,
  'б-р',
  String.raw`пл(?:ощ[аі]|ощадь|ощади|\.)`,
  String.raw`пров(?:улок|улку|\.)`,
  String.raw`пер(?:еулок|еулке|\.)`,
  String.raw`набережн(?:а|ая|ій|ой)`,
  'шосе|шоссе|узвіз',
];

const capitalised = (kind: string): string =>
  `[${kind.charAt(0).toUpperCase()}${kind.charAt(0)}]${kind.slice(1)}`;

const KIND = KINDS.map(capitalised).join('|');
/** "Шевченка", "І. Франка", "8 Березня", "Академіка Глушкова". */
const NAME_PART = String.raw`\p{Lu}(?:\.|[\p{L}'-]*)`;
const NAME = String.raw`(?:\d{1,3}(?:-?\p{Ll}{1,2})? )?${NAME_PART}(?: ?${NAME_PART}){0,2}`;
const LOWER_CASE_NAME = String.raw`\p{Ll}[\p{L}'-]{3,30}`;
/** After a comma two numbers with a slash are floors, "4/9", more often than a house. */
const HOUSE = String.raw`(?!, ?\d{1,2}/\d),? ?(?:буд\. ?|будинок |дом |д\. ?|№ ?|No ?)?\d{1,4}(?:[-/]\d{1,3})?(?:-?[А-Яа-яІі](?!\p{L}))?(?!\d| ?(?:м|кв|хв|мин|пов|поверх|эт|этаж|й|кімн|комн|к|грн|\$|у\.)(?!\p{L}))`;

const STREET = rule(
  String.raw`(?<!\p{L})(?:${KIND}) ?(?:${NAME}|${LOWER_CASE_NAME})(?:${HOUSE})?`,
  'gu',
);

const ENGLISH_NAME = String.raw`\p{Lu}[\p{L}'-]{1,30}(?: \p{Lu}[\p{L}'-]{1,30}){0,2}`;
const ENGLISH_STREET = rule(
  String.raw`(?<![\p{L}\d])(?:\d{1,4}[A-Za-z]?,? )?${ENGLISH_NAME} (?:Street|St|Avenue|Ave|Boulevard|Blvd|Lane|Square)(?!\p{L})\.?` +
    String.raw`(?:,? \d{1,4}(?:/\d{1,3})?[A-Za-z]?(?![\p{L}\d]| ?(?:m|sq|min|floor|bed|room)))?`,
);

const NUMBERED = rule(String.raw`\d\p{L}?$`);

/** Street and number as the cleaned text writes them, or null. */
export function readAddress(written: string): string | null {
  const streets = [...written.matchAll(STREET)].map(([street]) => street);
  // A street that comes with a number says more than one without.
  const best = streets.find((street) => NUMBERED.test(street)) ?? streets[0];
  const address = best ?? ENGLISH_STREET.exec(written)?.[0];
  if (address === undefined) return null;
  return address.replace(/\s+/gu, ' ').replace(/[\s,.;-]+$/u, '');
}
