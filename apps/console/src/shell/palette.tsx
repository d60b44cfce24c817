import './modal.ts';
import '@mantine/core/styles/Input.layer.css';
import '@mantine/spotlight/styles.layer.css';
import { useMantineColorScheme } from '@mantine/core';
import { Spotlight, spotlight } from '@mantine/spotlight';
import { useMutation } from '@tanstack/react-query';
import { IconKeyboard, IconLanguage, IconLogout, IconMoon, IconSun } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { LANGUAGES } from '../i18n/messages.ts';
import { LANGUAGE_NAMES, useLanguage } from '../i18n/language.tsx';
import { signOut } from '../start/session.ts';
import { useSaveSettings } from '../start/settings.ts';
import { useEffect } from 'react';
import type { Page } from './pages.ts';

/** Command palette. */
export default function CommandPalette({
  pages,
  onHelp,
  onClose,
}: {
  pages: readonly Page[];
  onHelp: () => void;
  onClose: () => void;
}) {
  const { language, messages, setLanguage } = useLanguage();
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme();
  const { mutate: saveSettings } = useSaveSettings();
  const { mutate: leave } = useMutation({ mutationFn: signOut });
  const { theme } = messages;
  useEffect(spotlight.open, []);
  const createTheme = (id: 'light' | 'dark', icon: typeof IconSun) => ({
    id,
    label: `${theme.label}: ${theme[id]}`,
    icon,
    onClick: () => {
      setColorScheme(id);
      saveSettings({ theme: id });
    },
  });
  const actions = [
    ...pages.map(({ path, label, icon }) => ({
      id: path,
      label: label(messages),
      icon,
      onClick: () => void navigate({ to: path }),
    })),
    createTheme('light', IconSun),
    createTheme('dark', IconMoon),
    ...LANGUAGES.filter((code) => code !== language).map((code) => ({
      id: code,
      label: `${messages.languageLabel}: ${LANGUAGE_NAMES[code]}`,
      icon: IconLanguage,
      onClick: () => {
        setLanguage(code);
        saveSettings({ language: code });
      },
    })),
    { id: 'keys', label: messages.keys.title, icon: IconKeyboard, onClick: onHelp },
    { id: 'sign-out', label: messages.signOut, icon: IconLogout, onClick: () => leave() },
  ];
  return (
    <Spotlight
      shortcut={null}
      onSpotlightClose={onClose}
      actions={actions.map(({ icon: ActionIcon, ...action }) => ({
        ...action,
        leftSection: <ActionIcon size={18} stroke={1.7} aria-hidden />,
      }))}
      nothingFound={messages.noCommand}
      searchProps={{ placeholder: messages.commands, 'aria-label': messages.commands }}
    />
  );
}
