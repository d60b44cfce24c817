import type { ImageDescription } from '../schema.ts';
import { clean, fold, compileTable, compileStems } from './text.ts';

const MAX_HINT_LENGTH = 2_000;
/** Size in bytes below which an image is probably an icon or a thumbnail. */
const MIN_GOOD_IMAGE_BYTES = 1_024;

const DESCRIPTION_BY_ROOM: Record<ImageDescription['room_type'], string> = {
  plan: 'A floor plan.',
  kitchen: 'A kitchen.',
  bathroom: 'A bathroom.',
  bedroom: 'A bedroom.',
  living_room: 'A living room.',
  exterior: 'The outside of a building.',
  other: 'An image of the property.',
};

/** Keywords in file names, in three languages and in Latin transliteration. The first match determines the room. */
const ROOM_PATTERNS = compileTable<ImageDescription['room_type']>(String.raw`
plan: plan|layout|blueprint|план|схем
kitchen: kitchen|kuhn|kukhn|кухн
bathroom: bath|shower|toilet|wc|vann|sanuz|ванн|душ|туалет|санвуз|сануз
bedroom: bedroom|spaln|спальн|дитяч|детск
living_room: living|lounge|salon|vitaln|gostin|hostyn|zal|вітальн|гостин|зал
exterior: exterior|facade|fasad|outside|house|building|yard|garden|street|balcon|budyn|dom|двор|двір|подвір|фасад|будин|дом|вулиц|улиц|балкон
`);

const POOR_QUALITY_PATTERN = compileStems(
  'blur|dark|noisy|low-?res|thumb|розмит|темн|размыт|нечітк|нечетк|poor',
);

/** Returns the decoded file name of a URL or path. */
function extractFileName(hint: string): string {
  const path = hint.split(/[?#]/u, 1)[0] ?? '';
  const name = path.split(/[/\\]/u).findLast((part) => part !== '') ?? '';
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * Describes an image by keywords in its file name, which the hint gives as a URL or path (Contract 4, Model). A very
 * small file has poor quality.
 */
export function describeImage(bytes: Uint8Array, hint: string): ImageDescription {
  const name = fold(
    clean(extractFileName(hint.slice(0, MAX_HINT_LENGTH)), MAX_HINT_LENGTH),
  ).replace(/[_.]/gu, ' ');
  const room = ROOM_PATTERNS.find(([, pattern]) => name.search(pattern) >= 0)?.[0] ?? 'other';
  const quality =
    bytes.length < MIN_GOOD_IMAGE_BYTES || POOR_QUALITY_PATTERN.test(name) ? 'poor' : 'good';
  return { description: DESCRIPTION_BY_ROOM[room], room_type: room, quality };
}
