import { useQuery } from '@tanstack/react-query';
import { createContext, type ReactNode, use, useEffect, useMemo, useState } from 'react';
import type { Messages } from './en/index.ts';
import { chooseLanguage, isLanguage, type Language, loadMessages } from './messages.ts';

/** Names of the languages in themselves. */
export const LANGUAGE_NAMES = { uk: 'Українська', ru: 'Русский', en: 'English' } as const;

const STORAGE_KEY = 'oselya-language';

type LanguageState = {
  language: Language;
  messages: Messages;
  setLanguage: (to: Language) => void;
};

const LanguageContext = createContext<LanguageState | undefined>(undefined);

/** Loads the texts of the user's language before its children are shown. */
export function LanguageProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState(readLanguage);
  const { data: messages } = useQuery({
    queryKey: ['messages', language],
    queryFn: () => loadMessages(language),
    staleTime: Infinity,
    placeholderData: (previous) => previous,
  });
  useEffect(() => {
    document.documentElement.lang = language;
  }, [language]);
  const state = useMemo(
    () =>
      messages && {
        language,
        messages,
        setLanguage: (to: Language) => {
          localStorage.setItem(STORAGE_KEY, to);
          setLanguage(to);
        },
      },
    [language, messages],
  );
  return state && <LanguageContext value={state}>{children}</LanguageContext>;
}

function readLanguage(): Language {
  const stored = localStorage.getItem(STORAGE_KEY);
  return isLanguage(stored) ? stored : chooseLanguage(navigator.languages);
}

/** Returns the language, and the function that changes it. */
export function useLanguage(): LanguageState {
  const state = use(LanguageContext);
  if (state === undefined) throw new Error('There is no LanguageProvider');
  return state;
}

export const useMessages = (): Messages => useLanguage().messages;
