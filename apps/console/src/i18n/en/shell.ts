import { createPlural } from '../plural.ts';

const count = createPlural('en');

/** Texts of the frame of all pages. */
export const shell = {
  language: 'English',
  languageLabel: 'Language',
  search: 'Search',
  map: 'Map',
  boards: 'Boards',
  saved: 'Saved searches',
  chat: 'Chat',
  memory: 'Memory',
  account: 'Account',
  admin: 'Administration',
  compare: 'Compare',
  pages: 'Pages',
  more: 'More',
  commands: 'Go to a page or run a command',
  noCommand: 'No command has this name',
  openCommands: 'Commands',
  skipToContent: 'Skip to content',
  close: 'Close',
  theme: { label: 'Theme', light: 'Light', dark: 'Dark', auto: 'As in the system' },
  signIn: {
    title: 'Every listing, in one place',
    text: 'Search, compare and discuss the homes that you collect, in Ukrainian, Russian and English.',
    button: 'Sign in',
    ended: 'Your session has ended. What you typed is kept: sign in again to continue.',
  },
  signOut: 'Sign out',
  keys: {
    title: 'Keyboard shortcuts',
    palette: 'Open the commands',
    help: 'Show this list',
    search: 'Go to the search box',
    next: 'Next listing',
    previous: 'Previous listing',
    open: 'Open the listing',
    status: 'Choose a status',
    hide: 'Hide or show the listing',
    compare: 'Add the listing to the comparison, or remove it',
    page: (page: string) => `Go to: ${page}`,
    afterwards: 'then',
    areSwitchedOff: 'Shortcuts of single letters are switched off in your account.',
  },
  error: {
    title: 'Something went wrong',
    network: 'The server cannot be reached. Check the connection, then try again.',
    codes: {
      rate_limited: 'Too many requests',
      unavailable: 'The service is unavailable',
      collector_unavailable: 'The listings are unavailable',
      listing_not_found: 'There is no such listing',
      permission_missing: 'You lack a permission',
      validation_failed: 'The request is not valid',
      internal_error: 'The server failed',
    } as Record<string, string>,
    request: (id: string) => `Request ${id}`,
    retry: 'Try again',
    retryIn: (seconds: number) =>
      `Try again in ${count(seconds, { one: '# second', other: '# seconds' })}`,
    asOf: (time: string) => `The server cannot be reached. The data are as of ${time}.`,
    missingPage: 'There is no such page',
    toSearch: 'Go to the search',
    missingPermission: (permission: string) =>
      `You need the permission ${permission}. An administrator can grant it.`,
  },
};

export type ShellMessages = typeof shell;
