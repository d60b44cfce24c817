import type { ImageDescription } from '../answers.ts';
import { clean, fold } from './fold.ts';
import { stem } from './patterns.ts';

const MAX_HINT = 2_000;
/** Fewer bytes than this hold an icon or a thumbnail, no picture of a room. */
const LEAST_BYTES = 1_024;

/** Words of file names in three languages and in Latin transcription; the first that fits decides. */
const ROOMS: [ImageDescription['room_type'], string, RegExp][] = [
  ['plan', 'A floor plan.', stem('plan|layout|blueprint|план|схем')],
  ['kitchen', 'A kitchen.', stem('kitchen|kuhn|kukhn|кухн')],
  [
    'bathroom',
    'A bathroom.',
    stem('bath|shower|toilet|wc|vann|sanuz|ванн|душ|туалет|санвуз|сануз'),
  ],
  ['bedroom', 'A bedroom.', stem('bedroom|spaln|спальн|дитяч|детск')],
  [
    'living_room',
    'A living room.',
    stem('living|lounge|salon|vitaln|gostin|hostyn|zal|вітальн|гостин|зал'),
  ],
  [
    'exterior',
    'The outside of a building.',
    stem(
      'exterior|facade|fasad|outside|house|building|yard|garden|street|balcon|budyn|dom|двор|двір|подвір|фасад|будин|дом|вулиц|улиц|балкон',
    ),
  ],
];

const POOR = stem('blur|dark|noisy|low-?res|thumb|розмит|темн|размыт|нечітк|нечетк|poor');

/** The file name of an address or path, percent-encoding undone where it is well formed. */
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
 * Tells what a picture shows by the words of its file name, as the mock language model does
 * (Contract 4, Model). The bytes only tell whether there is enough of a picture.
 */
export function describeImage(bytes: Uint8Array, hint: string): ImageDescription {
  const name = fold(clean(nameIn(hint.slice(0, MAX_HINT)), MAX_HINT)).replace(/[_.]/gu, ' ');
  const room = ROOMS.find(([, , words]) => words.test(name));
  const quality = bytes.length < LEAST_BYTES || POOR.test(name) ? 'poor' : 'good';
  return {
    description: room?.[1] ?? 'A picture of the property.',
    room_type: room?.[0] ?? 'other',
    quality,
  };
}
