import { type FormEvent, useState } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import { translateValue } from '../listings/format.ts';
import type { ListFilterName, Search, SearchChanges } from './address.ts';
import { Histogram } from './histogram.tsx';
import { type Bucket, type Facets, type FacetValue, LIST_FACETS } from './queries.ts';
import { changeRooms, MAX_ROOMS } from './rooms.ts';
import classes from './search.module.css';

/** Number of values of a facet that are shown at first. */
const SHOWN_VALUES = 6;
const CURRENCIES = ['UAH', 'USD', 'EUR'];
const DAY_MS = 86_400_000;

type ChangeSearch = (changes: SearchChanges) => void;

/** Filters with the number of listings for each value. */
export function FilterPanel({
  search,
  facets,
  onChange,
}: {
  search: Search;
  facets: Facets | undefined;
  onChange: ChangeSearch;
}) {
  const texts = useLanguage().messages.listings;
  const [deal, kind, city, district, features, source] = LIST_FACETS.map((name) => (
    <ListFacet
      key={name}
      name={name}
      values={facets?.facets[name] ?? []}
      chosen={search[name] ?? []}
      onChange={onChange}
    />
  ));
  return (
    <div className={classes.facets}>
      {deal}
      {kind}
      <RangeFacet
        legend={texts.facets.price}
        names={['price_min', 'price_max']}
        search={search}
        buckets={facets?.facets.price?.buckets ?? []}
        currency={search.currency ?? facets?.currency}
        onChange={onChange}
      />
      <RoomsFacet search={search} values={facets?.facets.rooms ?? []} onChange={onChange} />
      <RangeFacet
        legend={texts.facets.area_total}
        names={['area_min', 'area_max']}
        search={search}
        buckets={facets?.facets.area_total?.buckets ?? []}
        onChange={onChange}
      />
      {city}
      {district}
      {features}
      {source}
      <FlagsFacet search={search} onChange={onChange} />
    </div>
  );
}

function ListFacet({
  name,
  values,
  chosen,
  onChange,
}: {
  name: ListFilterName & keyof Facets['facets'];
  values: readonly FacetValue[];
  chosen: readonly string[];
  onChange: ChangeSearch;
}) {
  const { language, messages } = useLanguage();
  const texts = messages.listings;
  const [isWhole, setWhole] = useState(false);
  const missing = chosen
    .filter((value) => !values.some(({ value: known }) => known === value))
    .map((value) => ({ value, count: 0 }));
  const all = [...missing, ...values];
  if (all.length === 0) return null;
  const hiddenCount = all.length - SHOWN_VALUES;
  const shown = all.filter(
    ({ value }, index) => isWhole || index < SHOWN_VALUES || chosen.includes(String(value)),
  );
  return (
    <fieldset>
      <legend>{texts.facets[name]}</legend>
      {shown.map(({ value, count }) => {
        const text = String(value);
        return (
          <label key={text} className={classes.value}>
            <input
              type="checkbox"
              checked={chosen.includes(text)}
              onChange={({ currentTarget: { checked } }) => {
                const changed = checked
                  ? [...chosen, text]
                  : chosen.filter((other) => other !== text);
                onChange({ [name]: changed.length === 0 ? undefined : changed });
              }}
            />
            <span>{translateValue(text, texts)}</span>
            <small>{count.toLocaleString(language)}</small>
          </label>
        );
      })}
      {hiddenCount > 0 && (
        <button
          type="button"
          className={classes.more}
          aria-expanded={isWhole}
          onClick={() => setWhole(!isWhole)}
        >
          {isWhole ? texts.showLess : texts.showMore(hiddenCount)}
        </button>
      )}
    </fieldset>
  );
}

function RoomsFacet({
  search,
  values,
  onChange,
}: {
  search: Search;
  values: readonly FacetValue[];
  onChange: ChangeSearch;
}) {
  const { language, messages } = useLanguage();
  const { facets, rooms: describe } = messages.listings;
  const { rooms_min: min = 0, rooms_max: max = Infinity } = search;
  const isLimited = search.rooms_min !== undefined || search.rooms_max !== undefined;
  return (
    <fieldset>
      <legend>{facets.rooms}</legend>
      <div className={classes.rooms}>
        {Array.from({ length: MAX_ROOMS + 1 }, (_, rooms) => {
          const isLast = rooms === MAX_ROOMS;
          const count = values
            .filter(({ value }) => (isLast ? Number(value) >= rooms : Number(value) === rooms))
            .reduce((sum, value) => sum + value.count, 0);
          return (
            <button
              key={rooms}
              type="button"
              aria-pressed={isLimited && rooms >= min && rooms <= max}
              onClick={() => onChange(changeRooms(search, rooms))}
            >
              <span aria-hidden>{isLast ? `${rooms}+` : rooms}</span>
              <small aria-hidden>{count.toLocaleString(language)}</small>
              <span className={classes.unseen}>
                {`${describe(rooms)}${isLast ? '+' : ''}: ${count.toLocaleString(language)}`}
              </span>
            </button>
          );
        })}
      </div>
    </fieldset>
  );
}

type RangeNames = ['price_min', 'price_max'] | ['area_min', 'area_max'];

function RangeFacet({
  legend,
  names: [minName, maxName],
  search,
  buckets,
  currency,
  onChange,
}: {
  legend: string;
  names: RangeNames;
  search: Search;
  buckets: readonly Bucket[];
  currency?: string | undefined;
  onChange: ChangeSearch;
}) {
  const texts = useLanguage().messages.listings;
  const [min, max] = [search[minName], search[maxName]];
  const save = (changes: SearchChanges) =>
    // The numbers mean nothing without their currency.
    onChange({ ...changes, ...(currency !== undefined && { currency }) });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const data = new FormData(event.currentTarget);
    const [from, to] = [readNumber(data.get('min')), readNumber(data.get('max'))];
    if (from === min && to === max) return;
    const isReversed = from !== undefined && to !== undefined && from > to;
    save({ [minName]: isReversed ? to : from, [maxName]: isReversed ? from : to });
  };
  return (
    <fieldset>
      <legend>{legend}</legend>
      <Histogram
        label={texts.histogram(legend)}
        buckets={buckets}
        min={min}
        max={max}
        onChoose={({ from, to }) => save({ [minName]: from, [maxName]: to })}
      />
      <form
        key={`${min} ${max}`}
        className={classes.range}
        onSubmit={submit}
        onBlur={({ currentTarget, relatedTarget }) => {
          if (!currentTarget.contains(relatedTarget)) currentTarget.requestSubmit();
        }}
      >
        <input
          name="min"
          inputMode="decimal"
          aria-label={texts.minimum(legend)}
          placeholder={texts.from}
          defaultValue={min}
        />
        <input
          name="max"
          inputMode="decimal"
          aria-label={texts.maximum(legend)}
          placeholder={texts.to}
          defaultValue={max}
        />
        {currency !== undefined && (
          <select
            aria-label={texts.currency}
            value={currency}
            onChange={({ currentTarget: { value } }) =>
              onChange({ currency: value, [minName]: undefined, [maxName]: undefined })
            }
          >
            {[...new Set([...CURRENCIES, currency])].map((code) => (
              <option key={code}>{code}</option>
            ))}
          </select>
        )}
        <button type="submit" className={classes.unseen} tabIndex={-1}>
          {texts.showResults}
        </button>
      </form>
    </fieldset>
  );
}

/** Reads a number as people write it: with spaces, and a comma or a point. */
function readNumber(text: FormDataEntryValue | null): number | undefined {
  if (typeof text !== 'string') return undefined;
  const digits = text.replaceAll(/[\s\u00a0\u202f]/g, '').replace(',', '.');
  const value = Number(digits);
  return digits === '' || !Number.isFinite(value) || value < 0 ? undefined : value;
}

const FLAGS = ['has_images', 'not_first_floor', 'not_last_floor'] as const;
const PERIODS = [
  ['price_dropped_since', 30],
  ['first_seen_since', 7],
] as const;

/** Returns the beginning of the day some days ago: the address of a search changes once a day. */
const startOfDay = (daysAgo: number) =>
  `${new Date(Date.now() - daysAgo * DAY_MS).toISOString().slice(0, 10)}T00:00:00Z`;

function FlagsFacet({ search, onChange }: { search: Search; onChange: ChangeSearch }) {
  const { facets, flags } = useLanguage().messages.listings;
  const options = [
    ...FLAGS.map((name) => [name, true] as const),
    ...PERIODS.map(([name, days]) => [name, startOfDay(days)] as const),
  ];
  return (
    <fieldset>
      <legend>{facets.other}</legend>
      {options.map(([name, value]) => (
        <label key={name} className={classes.value}>
          <input
            type="checkbox"
            checked={search[name] !== undefined}
            onChange={({ currentTarget: { checked } }) =>
              onChange({ [name]: checked ? value : undefined })
            }
          />
          <span>{flags[name]}</span>
        </label>
      ))}
    </fieldset>
  );
}
