import { useMantineColorScheme } from '@mantine/core';
import { Spotlight } from '@mantine/spotlight';
import { IconLogout, IconMoon, IconSun } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useLanguage } from '../i18n/language.tsx';
import { signOut } from '../start/session.ts';
import type { Page } from './pages.ts';

/** Command palette, which opens with Ctrl+K or ⌘K. */
export function CommandPalette({ pages }: { pages: readonly Page[] }) {
  const { messages } = useLanguage();
  const navigate = useNavigate();
  const { setColorScheme } = useMantineColorScheme();
  const { theme } = messages;
  const actions = [
    ...pages.map(({ path, label, icon: Icon }) => ({
      id: path,
      label: label(messages),
      leftSection: <Icon size={18} aria-hidden />,
      onClick: () => void navigate({ to: path }),
    })),
    {
      id: 'light',
      label: `${theme.label}: ${theme.light}`,
      leftSection: <IconSun size={18} aria-hidden />,
      onClick: () => setColorScheme('light'),
    },
    {
      id: 'dark',
      label: `${theme.label}: ${theme.dark}`,
      leftSection: <IconMoon size={18} aria-hidden />,
      onClick: () => setColorScheme('dark'),
    },
    {
      id: 'sign-out',
      label: messages.signOut,
      leftSection: <IconLogout size={18} aria-hidden />,
      onClick: () => void signOut(),
    },
  ];
  return (
    <Spotlight
      actions={actions}
      nothingFound={messages.noCommand}
      searchProps={{ placeholder: messages.commands, 'aria-label': messages.commands }}
    />
  );
}
