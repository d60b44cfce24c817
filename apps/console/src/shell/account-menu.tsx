import { useMantineColorScheme } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { IconKeyboard, IconLogout, IconUser } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useId } from 'react';
import { LANGUAGES } from '../i18n/messages.ts';
import { LANGUAGE_NAMES, useLanguage } from '../i18n/language.tsx';
import { signOut, type User } from '../start/session.ts';
import { useSaveSettings } from '../start/settings.ts';
import classes from './shell.module.css';

const THEMES = ['light', 'dark', 'auto'] as const;

/** Button with the user's name, and a panel with the language, the theme and the sign-out. */
export function AccountMenu({ user, onHelp }: { user: User; onHelp: () => void }) {
  const { language, messages, setLanguage } = useLanguage();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const { mutate: saveSettings } = useSaveSettings();
  const { mutate: leave } = useMutation({ mutationFn: signOut });
  const navigate = useNavigate();
  const panelId = useId();
  const name = user.display_name || user.email;
  const commands = [
    [messages.account, IconUser, () => void navigate({ href: '/app/account' })],
    [messages.keys.title, IconKeyboard, onHelp],
    [messages.signOut, IconLogout, () => leave()],
  ] as const;
  return (
    <>
      <button type="button" className={classes.page} title={name} popoverTarget={panelId}>
        <span className={classes.avatar} aria-hidden>
          {Array.from(name)[0]?.toUpperCase()}
        </span>
        <span>{name}</span>
      </button>
      <div id={panelId} popover="auto" className={classes.panel}>
        <p>{user.email}</p>
        <Choice
          label={messages.languageLabel}
          options={LANGUAGES.map((code) => ({
            value: code,
            text: LANGUAGE_NAMES[code],
            lang: code,
          }))}
          value={language}
          onChange={(code) => {
            setLanguage(code);
            saveSettings({ language: code });
          }}
        />
        <Choice
          label={messages.theme.label}
          options={THEMES.map((theme) => ({ value: theme, text: messages.theme[theme] }))}
          value={colorScheme}
          onChange={(theme) => {
            setColorScheme(theme);
            saveSettings({ theme });
          }}
        />
        {commands.map(([text, CommandIcon, run]) => (
          <button
            key={text}
            type="button"
            className={classes.page}
            popoverTarget={panelId}
            popoverTargetAction="hide"
            onClick={run}
          >
            <CommandIcon size={18} stroke={1.7} aria-hidden />
            <span>{text}</span>
          </button>
        ))}
      </div>
    </>
  );
}

function Choice<Value extends string>({
  label,
  options,
  value,
  onChange,
}: {
  label: string;
  options: readonly { value: Value; text: string; lang?: string }[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  return (
    <fieldset className={classes.choice}>
      <legend>{label}</legend>
      {options.map((option) => (
        <button
          key={option.value}
          type="button"
          lang={option.lang}
          aria-pressed={option.value === value}
          onClick={() => onChange(option.value)}
        >
          {option.text}
        </button>
      ))}
    </fieldset>
  );
}
