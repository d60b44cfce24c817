import { clean, fold } from './fold.ts';
import { spellOutNumbers } from './numbers-in-words.ts';
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

const forRules = (cleaned: string): string => spellOutNumbers(fold(withoutPhones(cleaned)));

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
