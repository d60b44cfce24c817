import { type Static, Type } from 'typebox';
import { findPropertyTypesByPrefix } from '../listing/property-types.ts';
import { findPlacesByPrefix, getAncestor, getFilterName, type Place } from '../places/gazetteer.ts';
import { choice } from '../schemas.ts';
import { normalizeText } from '../text.ts';
import { durationSchema, textSchema } from './schemas.ts';

const MAX_SUGGESTIONS = 20;
const DEFAULT_SUGGESTIONS = 8;

/** Query parameters of `/search/suggest`. */
export const suggestQuerySchema = Type.Object(
  {
    q: Type.String({ ...textSchema, maxLength: 100, description: 'The beginning of a name.' }),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_SUGGESTIONS, default: DEFAULT_SUGGESTIONS }),
    ),
  },
  { additionalProperties: false },
);

export const suggestResponseSchema = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        text: Type.String({
          description: 'Name to show, such as that of a district with its city.',
        }),
        kind: choice(['city', 'district', 'region', 'property_type'], {
          description: 'Filter that takes the value.',
        }),
        value: Type.String(),
        place_id: Type.Optional(
          Type.Integer({ description: 'Value for `place_ids`, which finds exactly this place.' }),
        ),
      }),
    ),
    took_ms: durationSchema,
  },
  { $id: 'SuggestResponse' },
);

export type SuggestResponse = Static<typeof suggestResponseSchema>;

/** Suggests filters whose names in any language begin with a text: property types, then places. A text without a word has none. */
export function suggest({
  q: text,
  limit = DEFAULT_SUGGESTIONS,
}: Static<typeof suggestQuerySchema>): Omit<SuggestResponse, 'took_ms'> {
  if (normalizeText(text) === '') return { items: [] };
  const types = findPropertyTypesByPrefix(text).map((type) => ({
    text: type,
    kind: 'property_type' as const,
    value: type,
  }));
  const places = findPlacesByPrefix(text, limit).map(presentPlace);
  return { items: [...types, ...places].slice(0, limit) };
}

function presentPlace(place: Place): SuggestResponse['items'][number] {
  const name = place.names.uk;
  const outerPlace =
    place.kind === 'district' ? getAncestor(place, 'city') : getAncestor(place, 'region');
  const outerName = outerPlace === place ? undefined : outerPlace?.names.uk;
  const isRegion = place.kind === 'region';
  return {
    text: outerName === undefined ? name : `${name}, ${outerName}`,
    kind: isRegion ? 'region' : place.kind === 'district' ? 'district' : 'city',
    value: getFilterName(place),
    place_id: place.id,
  };
}
