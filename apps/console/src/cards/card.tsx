import { IconHome } from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import {
  computeChange,
  formatChange,
  formatPlace,
  formatPrice,
  getPrice,
  listFacts,
} from '../listings/format.ts';
import type { Listing } from '../listings/types.ts';
import classes from './cards.module.css';

/** One listing in short, as a link. Plain elements, because lists of cards are long. */
export function ListingCard({ listing, badge }: { listing: Listing; badge?: ReactNode }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { cover, listing_id: id, archived_at: archivedAt, source_slug: source } = listing;
  return (
    <Link
      to="/app/listings/$id"
      params={{ id: String(id) }}
      className={classes.card}
      data-archived={archivedAt !== null || undefined}
    >
      <span className={classes.cover}>
        {cover === null ? (
          <IconHome size={24} stroke={1.4} aria-hidden />
        ) : (
          <img src={cover.links.small} alt="" loading="lazy" width={112} height={84} />
        )}
      </span>
      <span className={classes.text}>
        <span className={classes.price}>
          <CardPrice listing={listing} />
          {archivedAt !== null && <small>{texts.isArchived}</small>}
          {badge}
        </span>
        <span className={classes.title} dir="auto">
          {listing.title ?? texts.untitled}
        </span>
        <span className={classes.facts}>{listFacts(listing, language, texts).join(' · ')}</span>
        <span className={classes.facts}>
          {[formatPlace(listing), source].filter(Boolean).join(' · ')}
        </span>
      </span>
    </Link>
  );
}

function CardPrice({ listing }: { listing: Listing }) {
  const { language, messages } = useLanguage();
  const { previous_price: previous, price_converted: converted } = listing;
  const price = getPrice(listing);
  if (price === null) return <b>{messages.listings.noPrice}</b>;
  const percent =
    previous?.currency === price.currency ? computeChange(price.amount, previous.price) : 0;
  return (
    <>
      <b>{formatPrice(price, language)}</b>
      {percent < 0 && <span className={classes.drop}>{formatChange(percent, language)}</span>}
      {converted && converted.currency !== price.currency && (
        <small>≈ {formatPrice(converted, language)}</small>
      )}
    </>
  );
}

/** Placeholders of cards while they load. */
export function CardSkeletons({ count }: { count: number }) {
  return (
    <div aria-hidden="true" className={classes.skeletons}>
      {Array.from({ length: count }, (_, index) => (
        <div key={index} className={classes.card}>
          <span className={classes.cover} />
          <span className={classes.text}>
            <span className={classes.bar} />
            <span className={classes.bar} />
            <span className={classes.bar} />
          </span>
        </div>
      ))}
    </div>
  );
}
