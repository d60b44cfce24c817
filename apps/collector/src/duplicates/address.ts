import { normaliseText } from '../text.ts';

/** What stands in addresses beside names and numbers, in Ukrainian, Russian and English. */
const KINDS = new Set(
  [
    'вулиця вул ул улица проспект просп пр пркт бульвар бульв бул площа площадь пл провулок пров',
    'переулок пер шосе шоссе набережна набережная наб узвіз будинок буд дом д б корпус корп к',
    'місто м город г street st avenue ave road rd lane ln building bldg',
  ]
    .join(' ')
    .split(' '),
);

/** What a flat's number comes after: it is nothing of the building. */
const FLAT = new Set(['кв', 'квартира', 'flat', 'apt', 'apartment', 'офіс', 'офис', 'office']);

/** An address as it is compared: the street's words and the building's number, where they are named. */
export type Address = { street: ReadonlySet<string>; house: string | undefined };

/** Reads an address; `вул. Івана Франка, 12-А, кв. 7` is the street `івана франка` and the house `12а`. */
export function parseAddress(text: string, city: string | null): Address {
  const cityWords = new Set(normaliseText(city ?? '').split(' '));
  const words = normaliseText(text).split(' ');
  const street = new Set<string>();
  const numbers: string[] = [];
  for (const [nth, word] of words.entries()) {
    const before = words[nth - 1] ?? '';
    if (/^\d/u.test(word)) {
      if (!FLAT.has(before)) numbers.push(word);
    } else if (word.length === 1 && /^\d+$/u.test(before) && numbers.at(-1) === before) {
      numbers.splice(-1, 1, before + word);
    } else if (word !== '' && !KINDS.has(word) && !FLAT.has(word) && !cityWords.has(word)) {
      street.add(word);
    }
  }
  // The last number is the building's: streets have numbers too, which come first.
  return { street, house: numbers.at(-1) };
}

/** Whether two streets may be one: `франка` and `івана франка` may. */
export function isSameStreet(one: Address, other: Address): boolean {
  const [few, many] = [one.street, other.street].toSorted((a, b) => a.size - b.size);
  return few !== undefined && many !== undefined && few.size > 0 && few.isSubsetOf(many);
}
