import { formatListingId, formatNumber, formatPrice } from '@oselya/kit';
import type { ChatMessage, SearchCriteria } from '@oselya/model';
import { type Static, type TObject, Type } from 'typebox';
import { searchFilters } from '../../collector/generated/openapi.ts';
import { presentPage } from './present-listing.ts';
import {
  defineTool,
  type MockLanguage,
  type MockRule,
  type MockQuestion,
  ToolError,
} from './tool.ts';

const MAX_LISTINGS = 10;

const { price_min, rooms_min, area_min } = searchFilters;
const placeName = Type.String({ minLength: 1, maxLength: searchFilters.city.maxLength });

/**
 * Creates the filters of a search tool, with the collector's bounds. Contract 4, Search.
 * @param options.isDescribed Whether the filters have descriptions. Repeated in each tool, they would fill small windows.
 */
function createFilters({ isDescribed }: { isDescribed: boolean }) {
  const describe = (description: string) => (isDescribed ? { description } : {});
  const createPlaceSchema = (description: string) =>
    Type.Optional(
      Type.Union(
        [Type.Array(placeName, { maxItems: searchFilters.city.maxItems }), placeName],
        describe(description),
      ),
    );
  const priceSchema = Type.Optional(
    Type.Number({ ...price_min, ...describe('in currency; other currencies are converted') }),
  );
  const areaSchema = Type.Optional(
    Type.Number({ ...area_min, ...describe('square metres in all') }),
  );
  const roomsSchema = Type.Optional(
    Type.Integer({ ...rooms_min, ...describe('without kitchen and bathroom') }),
  );
  return {
    deal_type: Type.Optional(
      Type.Enum(
        ['sale', 'rent', 'daily_rent'],
        describe('sale; rent by the month; daily_rent by the day'),
      ),
    ),
    city: createPlaceSchema('in any language and spelling; several names mean any of them'),
    district: createPlaceSchema('of a city, such as Сихів'),
    region: createPlaceSchema('such as Львівська область'),
    property_type: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: searchFilters.property_type.maxLength,
        ...describe('apartment, house, room, land, commercial or garage'),
      }),
    ),
    price_min: priceSchema,
    price_max: priceSchema,
    currency: Type.Optional(
      Type.String({
        pattern: searchFilters.currency.pattern,
        ...describe('ISO 4217, of the prices; without it USD for a sale and UAH for anything else'),
      }),
    ),
    rooms_min: roomsSchema,
    rooms_max: roomsSchema,
    area_min: areaSchema,
    area_max: areaSchema,
    limit: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_LISTINGS,
        ...describe(`how many, up to ${MAX_LISTINGS}; 5 without it`),
      }),
    ),
  };
}

type ListingFilters = Static<TObject<ReturnType<typeof createFilters>>>;

const DEFAULT_LIMIT = 5;

/** Tool that finds listings by words, meaning and filters. Contract 4, Search. */
export const searchListings = defineTool({
  name: 'search_listings',
  description:
    'Finds property listings by words, meaning and filters. Put what a filter can say into filters, and the rest of the wish, in the language of the listings (mostly Ukrainian), into query.',
  input: Type.Object(
    {
      query: Type.String({
        minLength: 1,
        maxLength: 512,
        description: 'what is looked for, in a few words; not prices or numbers of rooms',
      }),
      mode: Type.Optional(
        Type.Enum(['both', 'words'], {
          description:
            'both (without it): words or meaning. words: only listings that have every word, for names of streets and the like',
        }),
      ),
      ...createFilters({ isDescribed: true }),
    },
    { additionalProperties: false },
  ),
  hasThirdPartyText: true,
  title: ({ query, ...filters }) =>
    ['Searching listings', query, formatFilters(filters)].filter(Boolean).join(' · '),
  async run({ mode = 'both', limit = DEFAULT_LIMIT, ...search }, { collector, signal }) {
    const body = { ...omitEmptyLists(search), limit, fold_duplicates: true };
    const kind = mode === 'words' ? 'fulltext' : 'hybrid';
    return presentPage(await collector.search(kind, body, signal));
  },
  mock: {
    call({ text, criteria, earlierMessages }) {
      const search = parseFollowUp(text, criteria, earlierMessages);
      if (search !== undefined) return search;
      const isWish = criteria.mentionsProperty || criteria.city !== null;
      return isWish ? { query: truncateQuery(text), ...toFilters(criteria) } : undefined;
    },
    answer: formatPage,
  },
});

/** Tool that finds listings similar to another listing or to a description. Contract 4, Search. */
export const similarListings = defineTool({
  name: 'similar_listings',
  description:
    'Finds listings that are like one listing (listing_id), or that mean what a text says (query); give one of the two. For "more like this one" and for wishes that filters cannot say. The filters are those of search_listings.',
  input: Type.Object(
    {
      listing_id: Type.Optional(Type.Integer({ minimum: 1 })),
      query: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
      ...createFilters({ isDescribed: false }),
    },
    { additionalProperties: false },
  ),
  hasThirdPartyText: true,
  title: ({ listing_id: listingId, query, ...filters }) => {
    const activity =
      listingId === undefined
        ? 'Searching by meaning'
        : `Searching for more like ${formatListingId(listingId)}`;
    return [activity, query, formatFilters(filters)].filter(Boolean).join(' · ');
  },
  async run({ limit = DEFAULT_LIMIT, ...search }, { collector, signal }) {
    if ((search.listing_id === undefined) === (search.query === undefined)) {
      throw new ToolError('give either listing_id or query');
    }
    const body = { ...omitEmptyLists(search), limit, fold_duplicates: true };
    return presentPage(await collector.searchSimilar(body, signal));
  },
  mock: {
    call: ({ text }) =>
      parseListingInput(text, /(?:схож\p{L}*|похож\p{L}*|like|similar)\D{0,20}#?(\d+)/iu),
    answer: formatPage,
  },
});

/** Omits the filters for which a model names no places. */
function omitEmptyLists<Search extends object>(search: Search): Search {
  const entries = Object.entries(search).filter(
    ([, value]) => !(Array.isArray(value) && value.length === 0),
  );
  return Object.fromEntries(entries) as Search;
}

/** Formats search filters for people: "rent · Львів · rooms 2 · price ≤ 15 000". */
function formatFilters(filters: ListingFilters): string {
  const { deal_type, city, district, region, property_type } = filters;
  return [
    deal_type,
    ...[city, district, region].map(formatNames),
    property_type,
    formatRange('rooms', filters.rooms_min, filters.rooms_max),
    [formatRange('price', filters.price_min, filters.price_max), filters.currency]
      .filter(Boolean)
      .join(' '),
    formatRange('m²', filters.area_min, filters.area_max),
  ]
    .filter(Boolean)
    .join(' · ');
}

const formatNames = (names: string | string[] | undefined) => [names ?? []].flat().join(', ');

function formatRange(unit: string, min: number | undefined, max: number | undefined): string {
  if (min === undefined) return max === undefined ? '' : `${unit} ≤ ${formatNumber(max)}`;
  if (max === undefined) return `${unit} ≥ ${formatNumber(min)}`;
  return `${unit} ${formatNumber(min)}${min === max ? '' : `–${formatNumber(max)}`}`;
}

/** Returns a tool input with the listing ID that the pattern's first group captures; undefined without a match. */
export function parseListingInput(
  text: string,
  pattern: RegExp,
): { listing_id: number } | undefined {
  const id = pattern.exec(text)?.[1];
  return id === undefined ? undefined : { listing_id: Number(id) };
}

const truncateQuery = (text: string): string => text.trim().slice(0, 512);

function toFilters(criteria: SearchCriteria) {
  const { deal_type, property_type, city, price, currency, rooms, area_total } = criteria;
  return {
    ...(deal_type !== null && { deal_type }),
    ...(property_type !== null && { property_type }),
    ...(city !== null && { city }),
    ...(price !== null && { price_max: price, ...(currency !== null && { currency }) }),
    ...(rooms !== null && { rooms_min: rooms, rooms_max: rooms }),
    ...(area_total !== null && { area_min: area_total }),
  };
}

type SearchInput = { query: string; deal_type?: string; price_max?: number; currency?: string };

const CHEAPER_PATTERN = /дешев|cheaper/iu;

/** Maximum price for "cheaper", as a share of the previous maximum or, without one, of the lowest price found. */
const CHEAPER_SHARE = 0.9;

/**
 * Applies a short message to the last search: "дешевше", "а в Києві?", "трикімнатну". A message with both a property
 * type and a city is a new search.
 */
function parseFollowUp(
  text: string,
  criteria: SearchCriteria,
  earlierMessages: MockQuestion['earlierMessages'],
): SearchInput | undefined {
  const lastSearch = earlierMessages
    .flatMap((message) => (message.role === 'assistant' ? (message.toolCalls ?? []) : []))
    .findLast(({ name }) => name === 'search_listings')?.input as SearchInput | undefined;
  if (lastSearch === undefined || (criteria.mentionsProperty && criteria.city !== null))
    return undefined;
  const changes = toFilters(criteria);
  if (CHEAPER_PATTERN.test(text)) {
    const { price_max: price, currency } =
      lastSearch.price_max === undefined ? findLowestPrice(earlierMessages) : lastSearch;
    const cheaperPrice = price === undefined ? {} : { price_max: price * CHEAPER_SHARE };
    return {
      ...lastSearch,
      ...cheaperPrice,
      ...(currency !== undefined && { currency }),
      ...changes,
    };
  }
  if (Object.keys(changes).length === 0) return undefined;
  const { price_max: _price, currency: _currency, ...searchWithoutPrice } = lastSearch;
  // A price limit for rent does not apply to a purchase.
  const isSameDeal = criteria.deal_type === null || criteria.deal_type === lastSearch.deal_type;
  const query = truncateQuery(`${lastSearch.query} ${text}`);
  return { ...(isSameDeal ? lastSearch : searchWithoutPrice), ...changes, query };
}

function findLowestPrice(
  earlierMessages: readonly ChatMessage[],
): Pick<SearchInput, 'price_max' | 'currency'> {
  const output = earlierMessages.findLast(
    (message) => message.role === 'tool' && message.toolName === 'search_listings',
  );
  // A pattern finds the prices, because truncated output is invalid JSON.
  const matches =
    output?.content.matchAll(/"price":(\d+(?:\.\d+)?)(?:,"currency":"([A-Z]{3})")?/g) ?? [];
  const prices = Array.from(matches, ([, price, currency]) => ({
    price_max: Number(price),
    ...(currency !== undefined && { currency }),
  }));
  return prices.toSorted((a, b) => a.price_max - b.price_max)[0] ?? {};
}

const FOUND_HEADING = {
  uk: (shownCount: number, total: string) => `Знайшлося ${total}, показую ${shownCount}:`,
  ru: (shownCount: number, total: string) => `Нашлось ${total}, показываю ${shownCount}:`,
  en: (shownCount: number, total: string) => `${total} found, here are ${shownCount}:`,
};
const NOTHING_FOUND_TEXT = {
  uk: 'За цими умовами нічого не знайшлося. Спробуйте інший бюджет чи район.',
  ru: 'По этим условиям ничего не нашлось. Попробуйте другой бюджет или район.',
  en: 'Nothing was found under these conditions. Try another budget or district.',
};
const ROOMS_LABEL = { uk: 'кімн.', ru: 'комн.', en: 'rooms' };
const FLOOR_LABEL = { uk: 'поверх', ru: 'этаж', en: 'floor' };

type PresentedListing = Readonly<Record<string, string | number | undefined>>;

function formatPage(data: Parameters<MockRule['answer']>[0], language: MockLanguage): string {
  const listings = (data['listings'] ?? []) as PresentedListing[];
  if (listings.length === 0) return NOTHING_FOUND_TEXT[language];
  const total = String((data['total'] as string | undefined) ?? listings.length);
  const lines = listings.map(
    (listing, index) => `${index + 1}. ${formatListing(listing, language)}`,
  );
  return [FOUND_HEADING[language](listings.length, total), ...lines].join('\n');
}

/** Formats a listing from tool output as one line. */
export function formatListing(listing: PresentedListing, language: MockLanguage): string {
  const { listing_id: id, title, price, currency, rooms, floor, city, district } = listing;
  const area = listing['area_total'];
  const parts = [
    typeof price === 'number' ? formatPrice(price, String(currency ?? '')) : undefined,
    typeof rooms === 'number' ? `${rooms} ${ROOMS_LABEL[language]}` : undefined,
    typeof area === 'number' ? `${formatNumber(area)} м²` : undefined,
    floor === undefined ? undefined : `${FLOOR_LABEL[language]} ${floor}`,
    [city, district].filter(Boolean).join(', '),
    typeof id === 'number' ? formatListingId(id) : undefined,
  ];
  return `${title ?? ''} — ${parts.filter(Boolean).join(', ')}`;
}
