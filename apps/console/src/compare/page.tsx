import { Button, Skeleton } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconScale, IconX } from '@tabler/icons-react';
import { Link, useLocation, useNavigate } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { request } from '../api.ts';
import { useLanguage } from '../i18n/language.tsx';
import { readIds, setComparison, useComparison } from '../listings/comparison.ts';
import type { Hit, Listing } from '../listings/types.ts';
import { Cover } from '../listings/row.tsx';
import { EmptyNotice, ProblemNotice } from '../shell/problem.tsx';
import { useTitle } from '../shell/title.ts';
import { settingsQuery } from '../start/settings.ts';
import { type ComparedFact, compareListings } from './rows.ts';
import classes from './compare.module.css';

/** Up to five listings side by side. The address holds their IDs. */
export function ComparePage() {
  const { messages } = useLanguage();
  const texts = messages.listings.compare;
  const chosen = useComparison();
  const navigate = useNavigate();
  const { pathname, searchStr } = useLocation();
  const named = readIds(new URLSearchParams(searchStr).getAll('ids'));
  const { data: settings, isPending: isSettingsPending } = useQuery(settingsQuery);
  const { data, error, refetch } = useQuery({
    queryKey: ['compared', named, settings?.currency],
    queryFn: async ({ signal }) => {
      const body = { ids: named, ...(settings?.currency && { currency: settings.currency }) };
      const { items } = await request<{ items: Hit[] }>('/listings/batch', {
        method: 'POST',
        body,
        signal,
      });
      return items.map(({ listing }) => listing);
    },
    enabled: named.length > 0 && !isSettingsPending,
  });
  useTitle(texts.title);

  const open = (ids: readonly number[], replace: boolean) => {
    const params = new URLSearchParams(ids.map((id) => ['ids', String(id)]));
    void navigate({ href: `/app/compare?${params.toString()}`, replace });
  };
  // The location may be that of the next page already.
  const isUnnamed = pathname === '/app/compare' && named.length === 0 && chosen.length > 0;
  useEffect(() => {
    if (isUnnamed) open(chosen, true);
  }, [isUnnamed]);
  const remove = (id: number) => {
    setComparison(chosen.filter((other) => other !== id));
    open(
      named.filter((other) => other !== id),
      false,
    );
  };
  return (
    <div className={classes.page}>
      <h1>{texts.title}</h1>
      {named.length === 0 && (
        <EmptyNotice icon={<IconScale size={40} stroke={1.3} />} title={texts.empty}>
          <p>{texts.emptyHint}</p>
          <Button component={Link} to="/app/search" variant="default">
            {messages.error.toSearch}
          </Button>
        </EmptyNotice>
      )}
      {error && !data && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {named.length > 0 && !data && !error && <Skeleton height={480} />}
      {data && data.length < named.length && <p role="status">{texts.missing}</p>}
      {data && data.length > 0 && <Comparison listings={data} onRemove={remove} />}
    </div>
  );
}

function Comparison({
  listings,
  onRemove,
}: {
  listings: readonly Listing[];
  onRemove: (id: number) => void;
}) {
  const { language, messages } = useLanguage();
  const { compare: texts, untitled } = messages.listings;
  const [differencesOnly, setDifferencesOnly] = useState(false);
  const facts = compareListings(listings, { language, texts: messages.listings });
  const shownFacts = differencesOnly ? facts.filter(({ isSame }) => !isSame) : facts;
  return (
    <>
      <label className={classes.option}>
        <input
          type="checkbox"
          checked={differencesOnly}
          onChange={({ currentTarget: { checked } }) => setDifferencesOnly(checked)}
        />
        {texts.differencesOnly}
      </label>
      <div className={classes.scroll} tabIndex={0} role="region" aria-label={texts.title}>
        <table>
          <thead>
            <tr>
              <th scope="col">
                <span className={classes.unseen}>{texts.fact}</span>
              </th>
              {listings.map((listing) => (
                <th key={listing.listing_id} scope="col">
                  <Cover listing={listing} />
                  <Link to="/app/listings/$id" params={{ id: String(listing.listing_id) }}>
                    {listing.title ?? untitled}
                  </Link>
                  <button
                    type="button"
                    aria-label={texts.remove}
                    title={texts.remove}
                    onClick={() => onRemove(listing.listing_id)}
                  >
                    <IconX size={16} aria-hidden />
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shownFacts.map((fact) => (
              <FactRow key={fact.name} fact={fact} listings={listings} />
            ))}
          </tbody>
        </table>
      </div>
      {shownFacts.length === 0 && <p>{texts.same}</p>}
    </>
  );
}

function FactRow({ fact, listings }: { fact: ComparedFact; listings: readonly Listing[] }) {
  const { compare, fields } = useLanguage().messages.listings;
  return (
    <tr>
      <th scope="row">{fields[fact.name]}</th>
      {listings.map(({ listing_id: id }, index) => (
        <td key={id} data-best={fact.isBest[index]}>
          {fact.values[index] ?? '–'}
          {fact.isBest[index] === true && <small>{compare.best}</small>}
        </td>
      ))}
    </tr>
  );
}
