import type { Messages } from './en/index.ts';

export const LANGUAGES = ['uk', 'ru', 'en'] as const;
export type Language = (typeof LANGUAGES)[number];

/** Returns the first of a browser's languages that the console has, or else Ukrainian. */
export function chooseLanguage(preferred: readonly string[]): Language {
  const codes = preferred.map((tag) => tag.toLowerCase().split('-')[0]);
  return LANGUAGES.find((language) => language === codes.find(isLanguage)) ?? 'uk';
}

export const isLanguage = (code: string | null | undefined): code is Language =>
  (LANGUAGES as readonly (string | null | undefined)[]).includes(code);

const LOADERS: Record<Language, () => Promise<Messages>> = {
  uk: async () => (await import('./uk/index.ts')).uk,
  ru: async () => (await import('./ru/index.ts')).ru,
  en: async () => (await import('./en/index.ts')).en,
};

/** Loads the texts of a language, which are a separate file of the built console. */
export const loadMessages = (language: Language): Promise<Messages> => LOADERS[language]();
