import { Link } from '@tanstack/react-router';
import { useLanguage } from '../i18n/language.tsx';
import { computeChange, formatPrice, splitHighlight } from './format.ts';
import type { Hit } from './queries.ts';
import classes from './search.module.css';

/** One listing of the results. Plain elements, because thousands of rows must scroll smoothly. */
export function Row({ hit }: { hit: Hit }) {
  const { language, messages } = useLanguage();
  const { listing, cover, duplicates = [] } = hit;
  const { rooms, area_total: area, floor, floors_total: floors } = listing;
  const place = [listing.district, listing.city].filter(Boolean).join(', ');
  const facts = [
    rooms !== null && messages.rooms(rooms),
    area !== null && `${area.toLocaleString(language)} m²`,
    floor !== null && messages.floor(floor, floors),
  ].filter(Boolean);
  return (
    <Link to="/app/listings/$id" params={{ id: String(listing.listing_id) }} className={classes.row}>
      <span className={classes.cover}>
        {cover?.links && (
          <img src={cover.links.small} alt="" loading="lazy" width={160} height={120} />
        )}
        {hit.image_count > 1 && <span className={classes.count}>{hit.image_count}</span>}
      </span>
      <span className={classes.text}>
        <strong>{listing.title ?? messages.untitled}</strong>
        <RowPrice hit={hit} />
        <span>{facts.join(' · ')}</span>
        {hit.highlight !== undefined && (
          <span className={classes.highlight}>
            {splitHighlight(hit.highlight).map(({ text, isMarked }, index) =>
              // The parts of one text never change their order.
              isMarked ? <mark key={index}>{text}</mark> : text,
            )}
          </span>
        )}
        <small>
          {[place, listing.source_slug, duplicates.length > 0 && messages.adverts(duplicates.length + 1)]
            .filter(Boolean)
            .join(' · ')}
        </small>
      </span>
    </Link>
  );
}

function RowPrice({ hit: { listing, price_before: before } }: { hit: Hit }) {
  const { language, messages } = useLanguage();
  const { price, currency, converted_price: converted, price_per_m2: perSquareMetre } = listing;
  if (price === null || currency === null) return <span>{messages.noPrice}</span>;
  return (
    <span className={classes.price}>
      <b>{formatPrice({ amount: price, currency }, language)}</b>
      {before && (
        <>
          <s>{formatPrice(before, language)}</s>
          <span>{computeChange(price, before.amount)} %</span>
        </>
      )}
      {converted && <span>≈ {formatPrice(converted, language)}</span>}
      {perSquareMetre !== null && (
        <small>{formatPrice({ amount: perSquareMetre, currency }, language)}/m²</small>
      )}
    </span>
  );
}
