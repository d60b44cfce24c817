import { Skeleton } from '@mantine/core';
import { type InfiniteData, type UseInfiniteQueryResult, useQueries } from '@tanstack/react-query';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { IconSearchOff } from '@tabler/icons-react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import { useMarks } from '../listings/marks.ts';
import { Row } from '../listings/row.tsx';
import { useKeys } from '../shell/keys.ts';
import { EmptyNotice, ProblemNotice } from '../shell/problem.tsx';
import type { Search, SearchChanges } from './address.ts';
import type { Chip } from './chips.ts';
import { type ResultPage, totalQuery } from './queries.ts';
import classes from './search.module.css';

/** Height of a row before it is measured, in pixels. */
const ROW_HEIGHT = 179;
/** Rows that are drawn outside of the window. */
const OVERSCAN = 5;
/** Rows from the end at which the next page is requested. */
const PREFETCH_ROWS = 15;
const SKELETON_DELAY_MS = 150;

type Hits = UseInfiniteQueryResult<InfiniteData<ResultPage>>;
type ChangeSearch = (changes: SearchChanges) => void;

/** Results of a search: a list, or the reason why there is none. */
export function Results({
  hits: { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage },
  search,
  chips,
  onChange,
}: {
  hits: Hits;
  search: Search;
  chips: readonly Chip[];
  onChange: ChangeSearch;
}) {
  const texts = useLanguage().messages.listings;
  if (data === undefined) {
    return error ? (
      <ProblemNotice error={error} onRetry={() => void refetch()} />
    ) : (
      <LateSkeleton />
    );
  }
  if (data.pages[0]?.items.length === 0)
    return <NothingFound search={search} chips={chips} onChange={onChange} />;
  return (
    <>
      <List
        pages={data.pages}
        onEnd={() => {
          if (hasNextPage && !isFetchingNextPage && error === null) void fetchNextPage();
        }}
      />
      {error !== null && <ProblemNotice error={error} onRetry={() => void fetchNextPage()} />}
      <p className={classes.end} aria-live="polite">
        {isFetchingNextPage ? texts.loadingMore : !hasNextPage && texts.end}
      </p>
    </>
  );
}

function LateSkeleton() {
  const [isLate, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), SKELETON_DELAY_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div aria-busy className={classes.skeletons}>
      {isLate && Array.from({ length: 5 }, (_, index) => <Skeleton key={index} height={150} />)}
    </div>
  );
}

const getFocusedRow = () => document.activeElement?.closest<HTMLElement>('[data-index]');

/** Uses a control of the focused row. */
function act(action: string): void {
  const control = getFocusedRow()?.querySelector<HTMLElement>(`[data-action="${action}"]`);
  if (!(control instanceof HTMLSelectElement)) return control?.click();
  control.focus();
  // A test has no activation by the user, which the list of options needs.
  if (navigator.userActivation.isActive) control.showPicker();
}

function List({ pages, onEnd }: { pages: readonly ResultPage[]; onEnd: () => void }) {
  const list = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  const hits = useMemo(() => pages.flatMap(({ items }) => items), [pages]);
  const marks = useMarks(
    useMemo(
      () => pages.map(({ items }) => items.map(({ listing }) => listing.listing_id)),
      [pages],
    ),
  );
  const virtualizer = useWindowVirtualizer({
    count: hits.length,
    estimateSize: () => ROW_HEIGHT,
    overscan: OVERSCAN,
    scrollMargin: margin,
    getItemKey: (index) => hits[index]?.listing.listing_id ?? index,
  });
  const rows = virtualizer.getVirtualItems();
  useEffect(() => {
    const { top = 0 } = list.current?.getBoundingClientRect() ?? {};
    setMargin(top + window.scrollY);
  }, [pages]);
  const lastIndex = rows.at(-1)?.index ?? 0;
  useEffect(() => {
    if (lastIndex >= hits.length - PREFETCH_ROWS) onEnd();
  }, [lastIndex, hits.length, onEnd]);

  const findRow = (index: number) =>
    list.current?.querySelector<HTMLElement>(`[data-index="${index}"]`);
  const move = (step: number) => {
    const current = getFocusedRow();
    const index = current ? Number(current.dataset['index']) + step : (rows[0]?.index ?? 0);
    if (index < 0 || index >= hits.length) return;
    virtualizer.scrollToIndex(index, { align: 'auto' });
    // The row may have to be drawn first.
    requestAnimationFrame(() => findRow(index)?.querySelector('a')?.focus({ preventScroll: true }));
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    s: () => act('status'),
    h: () => act('hide'),
    c: () => act('compare'),
  });
  return (
    <div ref={list} className={classes.list} style={{ height: virtualizer.getTotalSize() }}>
      {rows.map(({ key, index, start }) => {
        const hit = hits[index];
        return (
          hit && (
            <div
              key={key}
              ref={virtualizer.measureElement}
              data-index={index}
              className={classes.item}
              style={{ transform: `translateY(${start - margin}px)` }}
            >
              <Row hit={hit} mark={marks[hit.listing.listing_id]} />
            </div>
          )
        );
      })}
    </div>
  );
}

/** Says that nothing was found, and offers the searches without one of the filters, the largest first. */
function NothingFound({
  search,
  chips,
  onChange,
}: {
  search: Search;
  chips: readonly Chip[];
  onChange: ChangeSearch;
}) {
  const texts = useLanguage().messages.listings;
  const parts = [
    ...chips,
    ...(search.q === undefined
      ? []
      : [{ id: 'q', text: search.q, removal: { q: undefined, mode: undefined } }]),
  ];
  const totals = useQueries({
    queries: parts.map(({ removal }) => totalQuery(removeParts(search, removal))),
  });
  const offers = parts
    .map((part, index) => ({ ...part, total: totals[index]?.data }))
    .filter(({ total }) => total !== undefined && total.value > 0)
    .toSorted((a, b) => (b.total?.value ?? 0) - (a.total?.value ?? 0));
  return (
    <EmptyNotice
      icon={<IconSearchOff size={40} stroke={1.3} aria-hidden />}
      title={texts.nothingFound}
    >
      <p>{texts.nothingFoundHint}</p>
      <ul className={classes.offers}>
        {offers.map(({ id, text, removal, total }) => (
          <li key={id}>
            <button type="button" onClick={() => onChange(removal)}>
              {texts.without(text)}
              {total && <small>{texts.found(total.value, total.relation === 'gte')}</small>}
            </button>
          </li>
        ))}
      </ul>
    </EmptyNotice>
  );
}

/** Returns a search without the members that a change removes. */
function removeParts(search: Search, removal: SearchChanges): Search {
  const entries = Object.entries({ ...search, ...removal });
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}
