import { useLanguage } from './language.tsx';
import type { Language } from './messages.ts';

/** Texts of a part of the console in all languages, which belong to the file of the part. */
export type PartMessages<Texts> = Readonly<Record<Language, Texts>>;

/** Returns the texts of a part in the user's language. */
export function usePartMessages<Texts>(messages: PartMessages<Texts>): Texts {
  return messages[useLanguage().language];
}
