import type { ImageDescription } from '../answers.ts';
import { clean, fold, patterns, stem } from './text.ts';

const MAX_HINT = 2_000;
/** A smaller file holds an icon or a thumbnail. */
const MIN_BYTES = 1_024;

const DESCRIPTIONS: Record<ImageDescription['room_type'], string> = {
  plan: 'A floor plan.',
  kitchen: 'A kitchen.',
  bathroom: 'A bathroom.',
  bedroom: 'A bedroom.',
  living_room: 'A living room.',
  exterior: 'The outside of a building.',
  other: 'An image of the property.',
};

/** Words of file names in three languages and in Latin transcription; the first that fits decides. */
const ROOMS = patterns<ImageDescription['room_type']>(`
plan: plan|layout|blueprint|план|схем
kitchen: kitchen|kuhn|kukhn|кухн
bathroom: bath|shower|toilet|wc|vann|sanuz|ванн|душ|туалет|санвуз|сануз
bedroom: bedroom|spaln|спальн|дитяч|детск
living_room: living|lounge|salon|vitaln|gostin|hostyn|zal|вітальн|гостин|зал
exterior: exterior|facade|fasad|outside|house|building|yard|garden|street|balcon|budyn|dom|двор|двір|подвір|фасад|будин|дом|вулиц|улиц|балкон
`);

const POOR = stem('blur|dark|noisy|low-?res|thumb|розмит|темн|размыт|нечітк|нечетк|poor');

/** Returns the file name of an address or path, decoded where its percent-encoding is well formed. */
function nameIn(hint: string): string {
  const path = hint.split(/[?#]/u, 1)[0] ?? '';
  const name = path.split(/[/\\]/u).findLast((part) => part !== '') ?? '';
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/**
 * Describes an image by the words of its file name or address (Contract 4, Model). The bytes only tell whether there is
 * enough of an image.
 */
export function describeImage(bytes: Uint8Array, hint: string): ImageDescription {
  const name = fold(clean(nameIn(hint.slice(0, MAX_HINT)), MAX_HINT)).replace(/[_.]/gu, ' ');
  const room = ROOMS.find(([, words]) => name.search(words) >= 0)?.[0] ?? 'other';
  const quality = bytes.length < MIN_BYTES || POOR.test(name) ? 'poor' : 'good';
  return { description: DESCRIPTIONS[room], room_type: room, quality };
}
