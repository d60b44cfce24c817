import { clean, fold } from './fold.ts';
import { spellOutNumbers } from './numbers-in-words.ts';
import { rule } from './patterns.ts';
import { withoutPhones } from './phones.ts';

/** A payload may hold 50,000 characters (Contract 4); the facts stand well before this. */
const MAX_TEXT = 20_000;
const MAX_TITLE = 500;

/** One listing's text in the forms the rules need. */
export type ListingText = {
  /** Cleaned, case kept: for names and addresses. */
  title: string;
  description: string;
  /** Title and description, a line each. */
  written: string;
  /** The same two folded, with numbers as digits and without phone numbers: for everything else. */
  foldedTitle: string;
  folded: string;
};

/** Writes "евродвушка" as "двушка" and "єтаж" as "этаж", so that the rules need one spelling. */
const oneSpelling = (folded: string): string =>
  folded.replace(EURO_FLAT, '').replaceAll('єтаж', 'этаж');
const EURO_FLAT = rule(String.raw`(?<!\p{L})[єе]вро-?(?=(?:одн|дв|тр)\p{L})`, 'gu');

const forRules = (cleaned: string): string =>
  spellOutNumbers(oneSpelling(fold(withoutPhones(cleaned))));

/** Prepares a title and description, either of which may be empty. */
export function readText(rawTitle: string, rawDescription: string): ListingText {
  const title = clean(rawTitle, MAX_TITLE).replace(/\s+/gu, ' ').trim();
  const description = clean(rawDescription, MAX_TEXT).trim();
  const foldedTitle = forRules(title);
  const foldedDescription = forRules(description);
  return {
    title,
    description,
    written: `${title}\n${description}`.trim(),
    foldedTitle,
    folded: `${foldedTitle}\n${foldedDescription}`.trim(),
  };
}
