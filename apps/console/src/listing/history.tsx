import { useQuery } from '@tanstack/react-query';
import { useLanguage } from '../i18n/language.tsx';
import { FACT_NAMES, formatFact } from '../listings/facts.ts';
import { formatDay } from '../listings/format.ts';
import type { Listing, Snapshot } from '../listings/types.ts';
import { historyQuery } from './queries.ts';
import classes from './listing.module.css';

/** Changes of a listing, newest first. */
export function History({ listing }: { listing: Listing }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings.page;
  const { data: snapshots } = useQuery(historyQuery(listing.listing_id));
  if (snapshots === undefined) return null;
  const changed = snapshots.filter(({ changes }) => Object.keys(changes).length > 0);
  return (
    <ol className={classes.history}>
      {changed.map((snapshot) => (
        <li key={snapshot.created_at}>
          <time dateTime={snapshot.created_at}>{formatDay(snapshot.created_at, language)}</time>
          <Changes snapshot={snapshot} currency={listing.currency} />
        </li>
      ))}
      <li>
        <time dateTime={listing.first_seen_at}>{formatDay(listing.first_seen_at, language)}</time>
        <p>{changed.length === 0 ? texts.noHistory : texts.firstSeen}</p>
      </li>
    </ol>
  );
}

function Changes({ snapshot, currency }: { snapshot: Snapshot; currency: string | null }) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const { changes, corrected_by: person, reprocessed } = snapshot;
  const format = (name: string, value: unknown) => {
    const fact = FACT_NAMES.find((known) => known === name);
    const text =
      fact === undefined ? shorten(value) : formatFact(fact, value, { currency, language, texts });
    return text ?? texts.page.noValue;
  };
  return (
    <div>
      {Object.entries(changes).map(([name, { from, to }]) => (
        <p key={name}>
          <b>{texts.fields[name] ?? name.replaceAll('_', ' ')}:</b>{' '}
          {name === 'description'
            ? texts.page.textChanged
            : texts.page.change(format(name, from), format(name, to))}
        </p>
      ))}
      {person && (
        <small>
          {texts.page.correctedBy(
            person.by ?? person.api_key_name ?? texts.page.originText.somebody,
          )}
        </small>
      )}
      {reprocessed && <small>{texts.page.reprocessed}</small>}
    </div>
  );
}

const MAX_LENGTH = 120;

/** Writes any value in one line, and a list as its length. */
function shorten(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  if (Array.isArray(value)) return String(value.length);
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text;
}
