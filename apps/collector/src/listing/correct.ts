import { type Kysely, sql } from 'kysely';
import type { Static } from 'typebox';
import { problem } from '../errors.ts';
import { checkValues } from '../ingest/payload.ts';
import {
  buildListingRow,
  diffStates,
  type ListingRow,
  type ListingState,
  TRACKED_FIELDS,
} from '../pipeline/listing-state.ts';
import { completeFacts, type Facts, normalizeFieldValue } from '../pipeline/merge.ts';
import type { PlaceColumns } from '../places/listing-place.ts';
import type { Tables } from '../tables.ts';
import {
  applyCorrections,
  type Author,
  CORRECTABLE_FIELDS,
  type Correction,
  type correctionRequestSchema,
  type Corrections,
  revertCorrections,
} from './corrections.ts';
import { FIELD_NAMES, getEmptyValue, getField, isFact, mapFields } from './fields.ts';
import { joinSameListing } from './listing.ts';
import { PROPERTY_TYPES } from './property-types.ts';
import { getProvider, type Origins, type Provenance } from './provenance.ts';
import { formatStems } from '../search/listing-stems.ts';

/** Fields that determine the place of a listing. */
const PLACE_FIELDS = ['city', 'district', 'address', 'title'] as const;

const FACT_FIELDS = FIELD_NAMES.filter(isFact);

type Values = Readonly<Partial<Record<string, unknown>>>;
type CorrectionRequest = Static<typeof correctionRequestSchema>;

/**
 * Sets and undoes corrections of a listing, and updates the listing, its provenance and its history as a payload does.
 * The change feed omits corrections, because the source has changed nothing. Contract 4, Listings.
 * @throws ProblemError `listing_not_found` or `validation_failed`.
 */
export async function correctListing(
  db: Kysely<Tables>,
  listingId: number,
  request: CorrectionRequest,
  author: Author,
): Promise<void> {
  const values = readValues(request);
  await db.transaction().execute(async (trx) => {
    const { rawId, storedCorrections, origins } = await lockListing(trx, listingId);
    const corrections = changeCorrections(storedCorrections, values, request.undo ?? [], author);
    if (corrections === undefined) return;
    const { before, storedPlace } = await readListing(trx, listingId);
    const uncorrected = revertCorrections({ facts: getFacts(before), origins }, storedCorrections);
    const corrected: Values = applyCorrections(uncorrected, corrections).facts;
    requireConsistency(values, corrected);

    const completed = completeFacts(uncorrected, corrections, before.description);
    const facts: Values = completed.facts;
    const state = {
      ...before,
      ...mapFields(FACT_FIELDS, (name) => facts[name] ?? getEmptyValue(name)),
    } as ListingState;
    const isSamePlace = PLACE_FIELDS.every((name) => (corrected[name] ?? null) === before[name]);
    // An unchanged place keeps the words of the source.
    const { city, district } = isSamePlace ? before : state;
    const place = (isSamePlace ? storedPlace : undefined) ?? completed.place;
    const newState = { ...state, city, district };
    await writeListing(trx, listingId, buildListingRow(newState, place));
    await writeCorrections(trx, listingId, completed);
    await addSnapshot(trx, { listingId, rawId, author, before, state: newState, completed });
  });
}

/** Returns the values to set as the rules of their fields write them. Throws ProblemError `validation_failed`. */
function readValues({ undo = [], by: _by, ...facts }: CorrectionRequest): Values {
  const entries = Object.entries(facts).filter(([, value]) => value !== undefined);
  if (entries.length + undo.length === 0)
    throw reject('', 'must correct a field, or undo a correction');
  const knownValues = Object.fromEntries(entries.filter(([, value]) => value !== null));
  const identity = { source_slug: 'a', external_id: 'a', description: 'a' };
  checkValues({ ...knownValues, ...identity }, 'body');
  const values: Record<string, unknown> = {};
  for (const name of CORRECTABLE_FIELDS) {
    const value = (facts as Values)[name];
    if (value === undefined) continue;
    if (undo.includes(name)) throw reject(`/${name}`, 'must not be undone in the same request');
    const newValue = value === null ? null : normalizeFieldValue(name, value);
    if (newValue === undefined) {
      throw reject(
        `/${name}`,
        name === 'property_type'
          ? `must name one of: ${PROPERTY_TYPES.join(', ')}`
          : 'must not be blank; null removes the value',
      );
    }
    values[name] = newValue;
  }
  return values;
}

const reject = (path: string, message: string) =>
  problem('validation_failed', { errors: [{ path: `body${path}`, message }] });

/** Returns the corrections after a request; undefined if they stay the same. */
function changeCorrections(
  stored: Corrections,
  values: Values,
  undoneFields: readonly string[],
  author: Author,
): Corrections | undefined {
  const isSet = (name: string) =>
    JSON.stringify(stored[name]?.value) === JSON.stringify(values[name]);
  const newFields = Object.keys(values).filter((name) => !isSet(name));
  const removedFields = undoneFields.filter((name) => stored[name] !== undefined);
  if (newFields.length + removedFields.length === 0) return undefined;
  const corrections: Record<string, Correction> = { ...stored };
  for (const name of removedFields) delete corrections[name];
  for (const name of newFields) {
    corrections[name] = {
      value: values[name],
      replaced: null,
      replaced_origin: null,
      corrected_at: new Date().toISOString(),
      corrected_by: author,
    };
  }
  return corrections;
}

/** Rejects new values that contradict other facts, which would be dropped. Throws ProblemError `validation_failed`. */
function requireConsistency(values: Values, facts: Values): void {
  for (const part of FIELD_NAMES) {
    const whole = getField(part).partOf?.whole;
    if (whole === undefined) continue;
    const name = [part, whole].find((field) => values[field] !== undefined);
    const [partValue, wholeValue] = [facts[part], facts[whole]];
    if (name === undefined || typeof partValue !== 'number' || typeof wholeValue !== 'number')
      continue;
    if (partValue <= wholeValue) continue;
    throw reject(`/${name}`, `${part} must not exceed ${whole}, which is ${wholeValue}: set both`);
  }
}

/** Locks the row that every payload of a listing locks, so that no payload changes the listing meanwhile. */
async function lockListing(trx: Kysely<Tables>, listingId: number) {
  const current = await trx
    .selectFrom('property_listings as listing')
    .innerJoin('listing_payloads as current', joinSameListing)
    .select(['current.raw_id', 'current.corrections'])
    .where('listing.id', '=', listingId)
    .forUpdate('current')
    .executeTakeFirst();
  if (current === undefined) throw problem('listing_not_found');
  const row = await trx
    .selectFrom('listing_enrichments')
    // The pipeline and this module are the only writers of this value.
    .select(sql<Provenance>`value`.as('provenance'))
    .where('listing_id', '=', listingId)
    .where('kind', '=', 'provenance')
    .executeTakeFirst();
  const {
    place: _place,
    price_per_m2: pricePerArea,
    ...otherOrigins
  } = row?.provenance.fields ?? {};
  // Origins of derived values follow from the facts again.
  const origins: Origins =
    pricePerArea === undefined || getProvider(pricePerArea) === undefined
      ? otherOrigins
      : { ...otherOrigins, price_per_m2: pricePerArea };
  return { rawId: current.raw_id, storedCorrections: current.corrections ?? {}, origins };
}

async function readListing(trx: Kysely<Tables>, listingId: number) {
  const { place_id, place_path, place_text, place_status, ...row } = await trx
    .selectFrom('property_listings')
    .select([...FIELD_NAMES, 'place_id', 'place_path', 'place_text', 'place_status'])
    .where('id', '=', listingId)
    .executeTakeFirstOrThrow();
  const before: ListingState = { ...row, published_at: row.published_at?.toISOString() ?? null };
  const storedPlace: PlaceColumns | undefined =
    place_status === null ? undefined : { place_id, place_path, place_text, place_status };
  return { before, storedPlace };
}

/** Returns the facts of a stored listing, without unknown ones. */
function getFacts(state: ListingState): Facts {
  const entries = FACT_FIELDS.map((name) => [name, state[name]] as const);
  return Object.fromEntries(
    entries.filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(getEmptyValue(name)),
    ),
  );
}

async function writeListing(
  trx: Kysely<Tables>,
  listingId: number,
  row: ListingRow,
): Promise<void> {
  const columns = sql.join(Object.keys(row).map((column) => sql.ref(column)));
  // The triggers of migrations 0020 and 0038 read these settings.
  await sql`select set_config('oselya.payload_again', 'true', true),
    set_config('oselya.stems', ${formatStems(row)}, true)`.execute(trx);
  await sql`
    update property_listings set updated_at = now(), (${columns}) = (
      select ${columns} from jsonb_populate_record(null::property_listings, ${JSON.stringify(row)}))
    where id = ${listingId}`.execute(trx);
}

async function writeCorrections(
  trx: Kysely<Tables>,
  listingId: number,
  { corrections, origins }: { corrections: Corrections; origins: Origins },
): Promise<void> {
  await sql`
    update listing_payloads as current
    set corrections = nullif(${JSON.stringify(corrections)}::jsonb, '{}')
    from property_listings as listing
    where listing.id = ${listingId} and current.source_slug = listing.source_slug
      and current.external_id = listing.external_id`.execute(trx);
  await sql`
    update listing_enrichments
    set value = jsonb_set(value, '{fields}', ${JSON.stringify(origins)}::jsonb), updated_at = now()
    where listing_id = ${listingId} and kind = 'provenance'`.execute(trx);
}

async function addSnapshot(
  trx: Kysely<Tables>,
  snapshot: {
    listingId: number;
    rawId: number;
    author: Author;
    before: ListingState;
    state: ListingState;
    completed: { origins: Origins };
  },
): Promise<void> {
  const { listingId, rawId, author, before, state, completed } = snapshot;
  const changes = diffStates(before, state, TRACKED_FIELDS);
  const titleBy = getProvider(completed.origins['title']) ?? null;
  await sql`
    insert into listing_snapshots
      (listing_id, raw_id, revision, listing, changes, title_by, corrected_by)
    select ${listingId}::bigint, ${rawId}::bigint,
      least(0, min(revision) filter (where raw_id = ${rawId})) - 1,
      ${JSON.stringify(state)}::jsonb || jsonb_build_object('pictures', coalesce(
        (array_agg(listing -> 'pictures' order by id desc))[1], '[]')),
      ${JSON.stringify(changes)}::jsonb, ${titleBy}::text, ${JSON.stringify(author)}::jsonb
    from listing_snapshots where listing_id = ${listingId}`.execute(trx);
}
