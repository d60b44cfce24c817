import { Button, Text, Title } from '@mantine/core';
import { useEffect } from 'react';
import { LANGUAGES } from '../i18n/messages.ts';
import { LANGUAGE_NAMES, useLanguage } from '../i18n/language.tsx';
import { Logo } from '../shell/logo.tsx';
import { keepWantedAddress } from './session.ts';
import classes from './sign-in.module.css';

/** Page of a visitor who is not signed in. */
export function SignIn({ hasEnded }: { hasEnded: boolean }) {
  const { language, messages, setLanguage } = useLanguage();
  const { title, text, button, ended } = messages.signIn;
  useEffect(() => {
    document.title = 'Oselya';
    const { origin, pathname, search } = location;
    // A sign-in returns to the public origin, and a cookie of another host name would not be sent there.
    const publicOrigin = document.querySelector<HTMLMetaElement>('meta[name=origin]')?.content;
    if (publicOrigin?.startsWith('http') && publicOrigin !== origin)
      location.replace(publicOrigin + pathname + search);
  }, []);
  return (
    <main className={classes.page}>
      <div className={classes.card}>
        <Logo size={56} />
        <Title order={1}>{title}</Title>
        {hasEnded && (
          <p role="status" className={classes.ended}>
            {ended}
          </p>
        )}
        {!hasEnded && <Text c="dimmed">{text}</Text>}
        <Button
          component="a"
          href="/auth/login"
          size="md"
          fullWidth
          onClick={() => keepWantedAddress(location.pathname + location.search)}
        >
          {button}
        </Button>
        <div role="group" aria-label={messages.languageLabel} className={classes.languages}>
          {LANGUAGES.map((code) => (
            <button
              key={code}
              type="button"
              lang={code}
              aria-pressed={code === language}
              onClick={() => setLanguage(code)}
            >
              {LANGUAGE_NAMES[code]}
            </button>
          ))}
        </div>
      </div>
    </main>
  );
}
