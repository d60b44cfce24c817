import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { IconAdjustmentsHorizontal, IconBookmarkPlus, IconX } from '@tabler/icons-react';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { lazy, Suspense, useMemo, useState } from 'react';
import { AddressLink } from '../cards/address-link.tsx';
import { useLanguage } from '../i18n/language.tsx';
import { ComparisonTray } from '../listings/comparison-tray.tsx';
import { StaleNotice } from '../shell/problem.tsx';
import { useTitle } from '../shell/title.ts';
import { settingsQuery } from '../start/settings.ts';
import {
  MODES,
  ORDERS,
  readSearch,
  type Search,
  type SearchChanges,
  writeSearch,
} from './address.ts';
import { type Chip, listChips } from './chips.ts';
import { FilterPanel } from './filter-panel.tsx';
import { facetsQuery, hitsQuery, type ResultPage } from './queries.ts';
import { Results } from './results.tsx';
import { SearchBox } from './search-box.tsx';
import classes from './search.module.css';

const Drawer = lazy(async () => ({ default: (await import('../shell/modal.ts')).Drawer }));

/** Search over all listings. The address holds the whole search, so it can be copied and gone back to. */
export function SearchPage() {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const navigate = useNavigate();
  const { searchStr } = useLocation();
  const { data: settings, isPending: isSettingsPending } = useQuery(settingsQuery);
  const [areFiltersOpen, setFiltersOpen] = useState(false);
  const search = useMemo(() => readSearch(new URLSearchParams(searchStr)), [searchStr]);
  const request = useMemo(() => addCurrency(search, settings?.currency), [search, settings]);
  // Prices would change once the settings are there.
  const hits = useInfiniteQuery({ ...hitsQuery(request), enabled: !isSettingsPending });
  const firstPage = hits.data?.pages[0];
  const { data: facets } = useQuery({
    ...facetsQuery(request, firstPage?.understood),
    enabled: firstPage !== undefined && !hits.isPlaceholderData,
  });
  useTitle(search.q ?? messages.search);

  const change = (changes: SearchChanges) => {
    const params = writeSearch({ ...search, ...changes });
    void navigate({ href: `/app/search?${params.toString()}` });
  };
  const chips = listChips(search, {
    language,
    texts,
    ...(facets && { currency: facets.currency }),
  });
  const panel = <FilterPanel search={search} facets={facets} onChange={change} />;
  const saveAddress = `/app/saved/new?${writeSearch(search).toString()}`;
  return (
    <div className={classes.page}>
      <h1 className={classes.unseen}>{messages.search}</h1>
      <SearchBox search={search} onChange={change} />
      <aside className={classes.panel} aria-label={texts.filters}>
        {panel}
      </aside>
      <div className={classes.results}>
        <div className={classes.toolbar}>
          <Found page={firstPage} search={search} isLoading={hits.isPlaceholderData} />
          <Button
            className={classes.filterButton}
            variant="default"
            size="xs"
            leftSection={<IconAdjustmentsHorizontal size={16} aria-hidden />}
            onClick={() => setFiltersOpen(true)}
          >
            {chips.length === 0 ? texts.filters : texts.filtersWithCount(chips.length)}
          </Button>
          {(search.q !== undefined || chips.length > 0) && (
            <AddressLink href={saveAddress} className={classes.save}>
              <IconBookmarkPlus size={18} stroke={1.7} aria-hidden />
              <span>{texts.saveSearch}</span>
            </AddressLink>
          )}
          {search.q === undefined ? (
            <OrderSelect search={search} onChange={change} />
          ) : (
            <ModeSelect search={search} onChange={change} />
          )}
        </div>
        <Chips chips={chips} onChange={change} />
        <UnderstoodChips page={firstPage} />
        {hits.data !== undefined && (
          <StaleNotice error={hits.error} loadedAt={hits.dataUpdatedAt} />
        )}
        <Results hits={hits} search={request} chips={chips} onChange={change} />
      </div>
      <Suspense>
        {areFiltersOpen && (
          <Drawer
            opened
            onClose={() => setFiltersOpen(false)}
            title={texts.filters}
            position="bottom"
            size="88%"
            closeButtonProps={{ 'aria-label': messages.close }}
          >
            {panel}
            <Button fullWidth mt="lg" onClick={() => setFiltersOpen(false)}>
              {texts.showResults}
            </Button>
          </Drawer>
        )}
      </Suspense>
      <ComparisonTray />
    </div>
  );
}

/** Adds the user's currency, in which prices without a currency in the address are shown. */
const addCurrency = (search: Search, currency: string | null | undefined): Search =>
  currency && search.currency === undefined ? { ...search, currency } : search;

function Found({
  page,
  search,
  isLoading,
}: {
  page: ResultPage | undefined;
  search: Search;
  isLoading: boolean;
}) {
  const texts = useLanguage().messages.listings;
  const text =
    page?.total === undefined
      ? search.mode === 'meaning' && page && texts.nearest
      : texts.found(page.total.value, page.total.relation === 'gte');
  return (
    <h2 className={classes.found} aria-live="polite" aria-busy={isLoading}>
      {text}
    </h2>
  );
}

type ChangeSearch = (changes: SearchChanges) => void;

function OrderSelect({ search, onChange }: { search: Search; onChange: ChangeSearch }) {
  const { sort: texts } = useLanguage().messages.listings;
  return (
    <select
      className={classes.select}
      aria-label={texts.label}
      value={search.sort ?? 'newest'}
      onChange={({ currentTarget: { value } }) =>
        onChange({ sort: ORDERS.find((order) => order === value) })
      }
    >
      {ORDERS.map((order) => (
        <option key={order} value={order}>
          {texts[order]}
        </option>
      ))}
    </select>
  );
}

function ModeSelect({ search, onChange }: { search: Search; onChange: ChangeSearch }) {
  const { mode: texts } = useLanguage().messages.listings;
  return (
    <select
      className={classes.select}
      aria-label={texts.label}
      value={search.mode ?? 'hybrid'}
      onChange={({ currentTarget: { value } }) =>
        onChange({ mode: MODES.find((mode) => mode === value) })
      }
    >
      {MODES.map((mode) => (
        <option key={mode} value={mode}>
          {texts[mode]}
        </option>
      ))}
    </select>
  );
}

function Chips({ chips, onChange }: { chips: readonly Chip[]; onChange: ChangeSearch }) {
  const texts = useLanguage().messages.listings;
  if (chips.length === 0) return null;
  const removeAll = Object.assign({}, ...chips.map(({ removal }) => removal)) as SearchChanges;
  for (const name of Object.keys(removeAll)) removeAll[name as keyof Search] = undefined;
  return (
    <ul className={classes.chips} aria-label={texts.filters}>
      {chips.map(({ id, text, removal }) => (
        <li key={id}>
          <button
            type="button"
            aria-label={texts.removeFilter(text)}
            onClick={() => onChange(removal)}
          >
            {text}
            <IconX size={14} aria-hidden />
          </button>
        </li>
      ))}
      <li>
        <button
          type="button"
          className={classes.clear}
          onClick={() => onChange({ ...removeAll, currency: undefined })}
        >
          {texts.clearFilters}
        </button>
      </li>
    </ul>
  );
}

function UnderstoodChips({ page }: { page: ResultPage | undefined }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { near, ...filters } = page?.understood ?? {};
  const chips = listChips(filters, { language, texts, ...(page && { currency: page.currency }) });
  const items = [
    ...chips.map(({ text }) => text),
    ...(near ? [texts.within(`${(near.radius_m / 1000).toLocaleString(language)} km`)] : []),
  ];
  if (items.length === 0) return null;
  return (
    <p className={classes.understood}>
      {texts.understood}: <b>{items.join(' · ')}</b>
    </p>
  );
}
