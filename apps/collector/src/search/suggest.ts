import { type Static, Type } from 'typebox';
import { findPropertyTypesByPrefix } from '../listing/property-types.ts';
import { findPlacesByPrefix, getAncestor, getFilterName, type Place } from '../places/gazetteer.ts';
import { choice, nullable } from '../schemas.ts';
import { normalizeText } from '../text.ts';
import { durationSchema, textSchema } from './schemas.ts';

const MAX_SUGGESTIONS = 20;
const DEFAULT_SUGGESTIONS = 8;

/** Request of `/search/suggest`. */
export const suggestRequestSchema = Type.Object(
  {
    text: Type.String({ ...textSchema, maxLength: 100, description: 'The beginning of a name.' }),
    limit: Type.Optional(
      Type.Integer({ minimum: 1, maximum: MAX_SUGGESTIONS, default: DEFAULT_SUGGESTIONS }),
    ),
  },
  { $id: 'SuggestRequest', additionalProperties: false, examples: [{ text: 'Льв' }] },
);

export type SuggestRequest = Static<typeof suggestRequestSchema>;

export const suggestResponseSchema = Type.Object(
  {
    items: Type.Array(
      Type.Object({
        filter: choice(['city', 'district', 'region', 'property_type'], {
          description: 'Filter that takes the value.',
        }),
        value: Type.String(),
        text: Type.String({
          description: 'Name to show, such as that of a district with its city.',
        }),
        place_id: nullable(
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
  text,
  limit = DEFAULT_SUGGESTIONS,
}: SuggestRequest): Omit<SuggestResponse, 'took_ms'> {
  if (normalizeText(text) === '') return { items: [] };
  const types = findPropertyTypesByPrefix(text).map((type) => ({
    filter: 'property_type' as const,
    value: type,
    text: type,
    place_id: null,
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
    filter: isRegion ? 'region' : place.kind === 'district' ? 'district' : 'city',
    value: getFilterName(place),
    text: outerName === undefined ? name : `${name}, ${outerName}`,
    place_id: place.id,
  };
}
