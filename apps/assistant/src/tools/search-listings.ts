import { Type } from 'typebox';
import type { Collector } from '../collector/client.ts';
import { describeFilters, listingFilters } from './listing-filters.ts';
import { describeFound } from './present-listing.ts';
import { defineTool } from './tool.ts';

const LIMIT = 5;

/** Finds listings by words, meaning and filters. Contract 3, Profiles; Contract 4, Search. */
export const searchListings = (collector: Pick<Collector, 'searchWords' | 'searchBoth'>) =>
  defineTool({
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
        ...listingFilters,
      },
      { additionalProperties: false },
    ),
    isData: true,
    changesMemory: false,
    title: ({ query, ...filters }) =>
      ['Searching listings', query, describeFilters(filters)].filter(Boolean).join(' · '),
    async run({ mode = 'both', limit = LIMIT, ...search }, { signal }) {
      const asked = { ...search, limit, fold_duplicates: true };
      const found =
        mode === 'words'
          ? await collector.searchWords(asked, signal)
          : await collector.searchBoth(asked, signal);
      return describeFound(found);
    },
  });
