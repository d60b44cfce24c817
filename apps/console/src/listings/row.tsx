import {
  type Icon,
  IconBed,
  IconBuilding,
  IconBuildingStore,
  IconCar,
  IconEyeOff,
  IconHome,
  IconPhoto,
  IconScale,
  IconTrees,
  IconTrendingDown,
  IconTrendingUp,
} from '@tabler/icons-react';
import { Link } from '@tanstack/react-router';
import { memo } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import { MAX_COMPARED, toggleCompared, useComparison } from './comparison.ts';
import {
  computeChange,
  formatChange,
  formatPlace,
  formatPrice,
  getPrice,
  listFacts,
  splitHighlight,
  translateValue,
} from './format.ts';
import { useChangeMark } from './marks.ts';
import { type Hit, type Listing, type Mark, STATUSES } from './types.ts';
import classes from './row.module.css';

/** A line never begins with the dot. */
const SEPARATOR = '\u00a0· ';

/** Icons of listings without an image, by the kind of property. */
const TYPE_ICONS: Record<string, Icon> = {
  apartment: IconBuilding,
  room: IconBed,
  land: IconTrees,
  commercial: IconBuildingStore,
  garage: IconCar,
};

/** Days for which a listing that the user has not opened is new. */
const NEW_DAYS = 3;
const DAY_MS = 86_400_000;

/** One listing of a list. Plain elements, because thousands of rows must scroll smoothly. */
export const Row = memo(function Row({ hit, mark }: { hit: Hit; mark: Mark | undefined }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { listing, highlight, duplicates = [] } = hit;
  const id = listing.listing_id;
  const title = listing.title ?? texts.untitled;
  if (mark?.hidden === true) {
    return (
      <article className={classes.hidden} data-listing={id}>
        <IconEyeOff size={16} aria-hidden />
        <Link to="/app/listings/$id" params={{ id: String(id) }} className={classes.link}>
          {title}
        </Link>
        <span>{texts.mark.isHidden}</span>
        <HideButton id={id} isHidden />
      </article>
    );
  }
  const place = formatPlace(listing);
  const adverts = Math.max(duplicates.length, listing.duplicate_count) + 1;
  const isNew =
    mark?.seen !== true && Date.now() - Date.parse(listing.first_seen_at) < NEW_DAYS * DAY_MS;
  const kinds = [listing.property_type, listing.deal_type].filter((kind) => kind !== null);
  return (
    <article className={classes.row} data-listing={id}>
      <Cover listing={listing} isNew={isNew} />
      <div className={classes.text}>
        <h3 className={classes.title} data-seen={mark?.seen}>
          <Link to="/app/listings/$id" params={{ id: String(id) }} className={classes.link}>
            {title}
          </Link>
        </h3>
        <p className={classes.facts}>
          {[
            ...listFacts(listing, language, texts),
            ...kinds.map((kind) => translateValue(kind, texts)),
          ].join(SEPARATOR)}
        </p>
        <p className={classes.passage}>
          {highlight === undefined ? listing.description : <Highlight text={highlight} />}
        </p>
        <p className={classes.source}>
          {[place, listing.source_slug, adverts > 1 && texts.adverts(adverts)]
            .filter(Boolean)
            .join(SEPARATOR)}
        </p>
      </div>
      <div className={classes.side}>
        <RowPrice listing={listing} />
        <RowActions id={id} mark={mark} />
      </div>
    </article>
  );
});

/** Cover of a listing, or a sign in its place. */
export function Cover({ listing, isNew = false }: { listing: Listing; isNew?: boolean }) {
  const texts = useLanguage().messages.listings;
  const { cover, image_count: count, property_type: type } = listing;
  const TypeIcon = TYPE_ICONS[type ?? ''] ?? IconHome;
  return (
    <div className={classes.cover}>
      {cover === null ? (
        <TypeIcon size={36} stroke={1.1} aria-hidden />
      ) : (
        <img
          src={cover.links.small}
          srcSet={`${cover.links.small} 320w, ${cover.links.large} 1024w`}
          sizes="(width < 48em) 116px, 200px"
          alt=""
          loading="lazy"
          decoding="async"
        />
      )}
      {isNew && <span className={classes.new}>{texts.isNew}</span>}
      {count > 1 && (
        <span className={classes.count}>
          <IconPhoto size={12} aria-hidden />
          <span aria-hidden>{count}</span>
          <span className={classes.unseen}>{texts.images(count)}</span>
        </span>
      )}
    </div>
  );
}

/** Passage with its matched words marked. */
export function Highlight({ text }: { text: string }) {
  return splitHighlight(text).map(({ text: part, isMarked }, index) =>
    // The parts of one text never change their order.
    isMarked ? <mark key={index}>{part}</mark> : part,
  );
}

/** Price of a listing with its last change, its price per square metre and its conversion. */
export function RowPrice({ listing }: { listing: Listing }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const price = getPrice(listing);
  if (price === null) return <p className={classes.noPrice}>{texts.noPrice}</p>;
  const {
    previous_price: previous,
    price_converted: converted,
    price_per_m2: perSquareMetre,
  } = listing;
  const percent =
    previous?.currency === price.currency ? computeChange(price.amount, previous.price) : 0;
  const ChangeIcon = percent < 0 ? IconTrendingDown : IconTrendingUp;
  return (
    <div className={classes.price}>
      <b>{formatPrice(price, language)}</b>
      {previous !== null && percent !== 0 && (
        <span className={classes.change} data-falls={percent < 0}>
          <s>
            <span className={classes.unseen}>{texts.before('')}</span>
            {formatPrice({ amount: previous.price, currency: previous.currency }, language)}
          </s>
          <ChangeIcon size={14} aria-hidden /> {formatChange(percent, language)}
        </span>
      )}
      <small>
        {[
          converted && `≈ ${formatPrice(converted, language)}`,
          perSquareMetre !== null &&
            texts.perSquareMetre(
              formatPrice({ amount: perSquareMetre, currency: price.currency }, language),
            ),
        ]
          .filter(Boolean)
          .join(' · ')}
      </small>
    </div>
  );
}

function RowActions({ id, mark }: { id: number; mark: Mark | undefined }) {
  return (
    <div className={classes.actions}>
      <StatusSelect id={id} mark={mark} />
      <CompareButton id={id} />
      <HideButton id={id} isHidden={false} />
    </div>
  );
}

/** Choice of the user's status for a listing. */
export function StatusSelect({ id, mark }: { id: number; mark: Mark | undefined }) {
  const { mark: texts, statuses } = useLanguage().messages.listings;
  const change = useChangeMark();
  const status = mark?.status ?? null;
  return (
    <select
      className={classes.status}
      data-action="status"
      data-status={status ?? undefined}
      aria-label={texts.status}
      value={status ?? ''}
      onChange={({ currentTarget: { value } }) =>
        change({ id, changes: { status: STATUSES.find((known) => known === value) ?? null } })
      }
    >
      <option value="">{texts.noStatus}</option>
      {STATUSES.map((value) => (
        <option key={value} value={value}>
          {statuses[value]}
        </option>
      ))}
    </select>
  );
}

/** Button that adds a listing to the comparison, or removes it. */
export function CompareButton({ id }: { id: number }) {
  const texts = useLanguage().messages.listings.compare;
  const ids = useComparison();
  const isCompared = ids.includes(id);
  const isFull = !isCompared && ids.length >= MAX_COMPARED;
  return (
    <button
      type="button"
      className={classes.action}
      data-action="compare"
      aria-pressed={isCompared}
      aria-label={texts.add}
      title={isFull ? texts.isFull : texts.add}
      disabled={isFull}
      onClick={() => toggleCompared(id)}
    >
      <IconScale size={18} stroke={1.7} aria-hidden />
    </button>
  );
}

function HideButton({ id, isHidden }: { id: number; isHidden: boolean }) {
  const texts = useLanguage().messages.listings.mark;
  const change = useChangeMark();
  return (
    <button
      type="button"
      className={isHidden ? classes.show : classes.action}
      data-action="hide"
      aria-label={isHidden ? undefined : texts.hide}
      title={isHidden ? undefined : texts.hide}
      onClick={() => change({ id, changes: { hidden: !isHidden } })}
    >
      {isHidden ? texts.show : <IconEyeOff size={18} stroke={1.7} aria-hidden />}
    </button>
  );
}
