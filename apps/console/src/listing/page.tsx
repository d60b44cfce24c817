import { Button, Skeleton, Stack } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { IconArrowLeft, IconExternalLink, IconMessageCircle } from '@tabler/icons-react';
import { Link, useParams, useRouter } from '@tanstack/react-router';
import { type ReactNode, useEffect, useId } from 'react';
import { AddressLink } from '../cards/address-link.tsx';
import { useLanguage } from '../i18n/language.tsx';
import { ComparisonTray } from '../listings/comparison-tray.tsx';
import {
  formatDay,
  formatPlace,
  formatPrice,
  getPrice,
  listFacts,
  parseWebAddress,
} from '../listings/format.ts';
import { marksQuery, useChangeMark } from '../listings/marks.ts';
import { Cover, RowPrice } from '../listings/row.tsx';
import type { Duplicate, ListingDetail } from '../listings/types.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { useTitle } from '../shell/title.ts';
import { settingsQuery } from '../start/settings.ts';
import { Facts } from './facts.tsx';
import { Gallery } from './gallery.tsx';
import { History } from './history.tsx';
import { MarkPanel } from './mark-panel.tsx';
import { Prices } from './price-chart.tsx';
import { listingQuery, similarQuery } from './queries.ts';
import classes from './listing.module.css';

/** Page of one listing. */
export function ListingPage() {
  const { id = '' } = useParams({ strict: false });
  const { data: settings, isPending: isSettingsPending } = useQuery(settingsQuery);
  const currency = settings?.currency;
  const query = { ...listingQuery({ id: Number(id), currency }), enabled: !isSettingsPending };
  const { data: listing, error, refetch } = useQuery(query);
  if (error !== null && listing === undefined)
    return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (listing === undefined) {
    return (
      <Stack aria-busy>
        <Skeleton height={360} />
        <Skeleton height={240} />
      </Stack>
    );
  }
  return <LoadedListing key={id} listing={listing} currency={currency} />;
}

type Currency = string | null | undefined;

function LoadedListing({ listing, currency }: { listing: ListingDetail; currency: Currency }) {
  const { language, messages } = useLanguage();
  const { page: texts, untitled } = messages.listings;
  const id = listing.listing_id;
  const { data: marks } = useQuery(marksQuery([id]));
  const title = listing.title ?? untitled;
  useTitle(title);
  useMarkSeen(id, marks === undefined || marks[id]?.seen === true);
  return (
    <article className={classes.page}>
      <header className={classes.header}>
        <BackLink />
        <h1>{title}</h1>
        <p className={classes.dim}>
          {[listing.address, formatPlace(listing)].filter(Boolean).join(', ')}
        </p>
        {listing.archived_at !== null && (
          <p className={classes.archived}>
            {texts.archived(formatDay(listing.archived_at, language))}
          </p>
        )}
      </header>
      <Gallery id={id} cover={listing.cover} />
      <aside className={classes.aside}>
        <Summary listing={listing} />
        {marks && <MarkPanel id={id} mark={marks[id]} />}
        <Duplicates duplicates={listing.duplicates} />
      </aside>
      <div className={classes.main}>
        <Section title={texts.description}>
          <p className={classes.description}>{listing.description}</p>
        </Section>
        <Section title={texts.facts}>
          <Facts listing={listing} />
        </Section>
        <Section title={texts.prices}>
          <Prices id={id} currency={currency} />
        </Section>
        <Section title={texts.history}>
          <History listing={listing} />
        </Section>
      </div>
      <Similar id={id} currency={currency} />
      <ComparisonTray />
    </article>
  );
}

function BackLink() {
  const { back } = useLanguage().messages.listings.page;
  const router = useRouter();
  return (
    <Link
      to="/app/search"
      className={classes.back}
      onClick={(event) => {
        // Going back keeps the search and the place in its list.
        if (!router.history.canGoBack() || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        router.history.back();
      }}
    >
      <IconArrowLeft size={16} aria-hidden /> {back}
    </Link>
  );
}

/** Marks a listing as seen when its page is opened. */
function useMarkSeen(id: number, isSeen: boolean): void {
  const change = useChangeMark();
  useEffect(() => {
    if (!isSeen) change({ id, changes: { seen: true } });
  }, [id, isSeen, change]);
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  const headingId = useId();
  return (
    <section className={classes.section} aria-labelledby={headingId}>
      <h2 id={headingId}>{title}</h2>
      {children}
    </section>
  );
}

function Summary({ listing }: { listing: ListingDetail }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const address = parseWebAddress(listing.url);
  return (
    <section className={classes.summary}>
      <RowPrice listing={listing} />
      <p>{listFacts(listing, language, texts).join(' · ')}</p>
      <Button
        component={AddressLink}
        href={`/app/chat?listing=${listing.listing_id}`}
        leftSection={<IconMessageCircle size={18} aria-hidden />}
      >
        {texts.page.ask}
      </Button>
      {address && (
        <a
          className={classes.external}
          href={address.href}
          target="_blank"
          rel="noopener noreferrer"
        >
          {texts.page.originalAt(address.host)} <IconExternalLink size={16} aria-hidden />
        </a>
      )}
    </section>
  );
}

function Duplicates({ duplicates }: { duplicates: readonly Duplicate[] }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  if (duplicates.length === 0) return null;
  const percent = new Intl.NumberFormat(language, { style: 'percent' });
  return (
    <section className={classes.duplicates} aria-labelledby="duplicates">
      <h2 id="duplicates">{texts.page.duplicates}</h2>
      <ul>
        {duplicates.map((duplicate) => {
          const price = getPrice(duplicate);
          return (
            <li key={duplicate.listing_id}>
              <Link to="/app/listings/$id" params={{ id: String(duplicate.listing_id) }}>
                {duplicate.source_slug}
              </Link>
              <b>{price === null ? texts.noPrice : formatPrice(price, language)}</b>
              <small>
                {[
                  texts.page.likelihood(percent.format(duplicate.score)),
                  ...duplicate.reasons.map(({ detail }) => detail),
                ].join(' · ')}
              </small>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function Similar({ id, currency }: { id: number; currency: Currency }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { data: hits = [] } = useQuery(similarQuery({ id, currency }));
  if (hits.length === 0) return null;
  return (
    <section className={classes.similar} aria-labelledby="similar">
      <h2 id="similar">{texts.page.similar}</h2>
      <ul>
        {hits.map(({ listing }) => (
          <li key={listing.listing_id}>
            <Cover listing={listing} />
            <Link to="/app/listings/$id" params={{ id: String(listing.listing_id) }}>
              {listing.title ?? texts.untitled}
            </Link>
            <RowPrice listing={listing} />
            <small>
              {[formatPlace(listing), ...listFacts(listing, language, texts)]
                .filter(Boolean)
                .join(' · ')}
            </small>
          </li>
        ))}
      </ul>
    </section>
  );
}
