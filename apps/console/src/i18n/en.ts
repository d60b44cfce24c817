import { createPlural } from './plural.ts';

const count = createPlural('en');

/** Texts of the console in English. The other languages have the same keys. */
export const en = {
  language: 'English',
  search: 'Search',
  map: 'Map',
  boards: 'Boards',
  saved: 'Saved searches',
  chat: 'Chat',
  memory: 'Memory',
  account: 'Account',
  admin: 'Administration',
  compare: 'Compare',
  commands: 'Go to a page or run a command',
  noCommand: 'No command has this name',
  skipToContent: 'Skip to content',
  theme: { label: 'Theme', light: 'Light', dark: 'Dark', auto: 'As in the system' },
  signIn: {
    title: 'Your listings, in one place',
    text: 'Search, compare and discuss the homes that you collect.',
    button: 'Sign in',
    ended: 'Your session has ended. What you typed is kept: sign in again to go on.',
  },
  untitled: 'Listing without a title',
  noPrice: 'No price',
  rooms: (value: number) =>
    value === 0 ? 'Studio' : count(value, { one: '# room', other: '# rooms' }),
  floor: (floor: number, floors: number | null) =>
    floors === null ? `floor ${floor}` : `floor ${floor} of ${floors}`,
  adverts: (value: number) => count(value, { one: '# advert', other: '# adverts' }),
  found: (value: number, isBound: boolean) =>
    `${count(value, { one: '# listing', other: '# listings' })}${isBound ? ' or more' : ''}`,
  searchBox: 'Two rooms near a park in Lviv, up to 15,000 UAH',
  nothingFound: 'No listing matches',
  clearFilters: 'Clear all filters',
  loadMore: 'Show more',
  sort: {
    label: 'Order',
    newest: 'Newest first',
    price_asc: 'Cheapest first',
    price_desc: 'Most expensive first',
    price_per_m2_asc: 'Lowest price per m²',
    price_per_m2_desc: 'Highest price per m²',
    area_asc: 'Smallest first',
    area_desc: 'Largest first',
  },
  facets: {
    deal_type: 'Deal',
    property_type: 'Kind',
    city: 'City',
    district: 'District',
    source_slug: 'Source',
  },
  values: {
    sale: 'Sale',
    rent: 'Rent',
    daily_rent: 'By the day',
    apartment: 'Flat',
    house: 'House',
    room: 'Room',
    land: 'Land',
    commercial: 'Commercial',
    garage: 'Garage',
  } as Record<string, string>,
  signOut: 'Sign out',
  error: {
    title: 'Something went wrong',
    network: 'The server cannot be reached. Check the connection, then try again.',
    request: (id: string) => `Request ${id}`,
    retry: 'Try again',
    retryIn: (seconds: number) =>
      `Try again in ${count(seconds, { one: '# second', other: '# seconds' })}`,
    missingPage: 'There is no such page',
    toSearch: 'Go to the search',
    missingPermission: (permission: string) =>
      `You need the permission ${permission}. An administrator can grant it.`,
  },
};
