import { useQuery } from '@tanstack/react-query';
import { Link, Outlet, useMatches, useNavigate } from '@tanstack/react-router';
import { IconCommand, IconDots } from '@tabler/icons-react';
import { useMantineColorScheme } from '@mantine/core';
import { lazy, Suspense, useEffect, useState } from 'react';
import { useLanguage, useMessages } from '../i18n/language.tsx';
import { hasPermission, type User } from '../start/session.ts';
import { settingsQuery } from '../start/settings.ts';
import { AccountMenu } from './account-menu.tsx';
import { switchLetters, useKeys } from './keys.ts';
import { Logo } from './logo.tsx';
import { listPages, type Page } from './pages.ts';
import { ActionProblems, MissingPermission } from './problem.tsx';
import classes from './shell.module.css';

declare module '@tanstack/react-router' {
  interface StaticDataRouteOption {
    /** Permission without which the page says that it is missing. */
    permission?: string;
  }
}

// Overlays are loaded when they are first opened.
const CommandPalette = lazy(() => import('./palette.tsx'));
const KeyboardHelp = lazy(() => import('./keyboard-help.tsx'));

const COMMANDS_KEY = navigator.platform.startsWith('Mac') ? '⌘ K' : 'Ctrl K';

type Overlay = 'commands' | 'keys';

/** Number of pages in the bar at the bottom of a narrow window. The commands have the others. */
const PAGES_IN_BAR = 4;

/** Frame of all pages: a rail at the left, or a bar at the bottom of a narrow window. */
export function Shell({ user }: { user: User }) {
  const messages = useMessages();
  const navigate = useNavigate();
  const [overlay, setOverlay] = useState<Overlay>();
  const openCommands = () => setOverlay('commands');
  const openKeys = () => setOverlay('keys');
  const closeOverlay = () => setOverlay(undefined);
  const pages = listPages(user);
  useApplySettings();
  useKeys({
    '?': openKeys,
    'mod k': openCommands,
    ...Object.fromEntries(
      pages.map(({ path, key }) => [`g ${key}`, () => void navigate({ to: path })]),
    ),
  });
  const missingPermission = useMatches()
    .map(({ staticData }) => staticData.permission)
    .find((permission) => permission !== undefined && !hasPermission(user, permission));
  return (
    <div className={classes.frame}>
      <a href="#content" className={classes.skip}>
        {messages.skipToContent}
      </a>
      <aside className={classes.rail} aria-label="Oselya">
        <Link to="/app/search" aria-label="Oselya" className={classes.brand}>
          <Logo size={28} />
          <span>Oselya</span>
        </Link>
        <nav aria-label={messages.pages}>
          {pages.map((page) => (
            <PageLink key={page.path} page={page} />
          ))}
        </nav>
        <div className={classes.foot}>
          <button
            type="button"
            className={classes.page}
            title={messages.openCommands}
            onClick={openCommands}
          >
            <IconCommand size={20} stroke={1.7} aria-hidden />
            <span>{messages.openCommands}</span>
            <kbd aria-hidden>{COMMANDS_KEY}</kbd>
          </button>
          <AccountMenu user={user} onHelp={openKeys} />
        </div>
      </aside>
      <main id="content" tabIndex={-1} className={classes.content}>
        {missingPermission === undefined ? (
          <Outlet />
        ) : (
          <MissingPermission permission={missingPermission} />
        )}
      </main>
      <nav className={classes.bar} aria-label={messages.pages}>
        {pages.slice(0, PAGES_IN_BAR).map((page) => (
          <PageLink key={page.path} page={page} />
        ))}
        <button type="button" className={classes.page} onClick={openCommands}>
          <IconDots size={22} stroke={1.7} aria-hidden />
          <span>{messages.more}</span>
        </button>
      </nav>
      <ActionProblems />
      <Suspense>
        {overlay === 'commands' && (
          <CommandPalette pages={pages} onHelp={openKeys} onClose={closeOverlay} />
        )}
        {overlay === 'keys' && <KeyboardHelp pages={pages} onClose={closeOverlay} />}
      </Suspense>
    </div>
  );
}

function PageLink({ page: { path, label, icon: PageIcon } }: { page: Page }) {
  const text = label(useMessages());
  return (
    <Link to={path} title={text} className={classes.page}>
      <PageIcon size={20} stroke={1.7} aria-hidden />
      <span>{text}</span>
    </Link>
  );
}

/** Applies the user's settings, which win over those of the browser. */
function useApplySettings(): void {
  const { data: settings } = useQuery(settingsQuery);
  const { setLanguage } = useLanguage();
  const { setColorScheme } = useMantineColorScheme();
  useEffect(() => {
    if (settings === undefined) return;
    switchLetters(settings.single_letter_keys);
    setColorScheme(settings.theme);
    if (settings.language !== null) setLanguage(settings.language);
    // The setters change with the state that they set.
  }, [settings]);
}
