import leven from 'leven';
import { quoted } from '../../shorten.ts';
import { KNOWN_KEYS } from '../fields.ts';
import { type Found, simpleRule } from '../rule.ts';

/** Finds extra properties whose names are almost that of a known one that is missing. */
export const likelyTypo = simpleRule('lint/likely-typo', 'warning', (fields) => {
  const found: Found[] = [];
  for (const key in fields) {
    if (KNOWN_KEYS.has(key)) continue;
    const meant = KNOWN_KEYS.values().find(
      (known) => !Object.hasOwn(fields, known) && isAlmost(key, known),
    );
    if (meant !== undefined)
      found.push({ key, message: `is ${quoted(key)} meant to be ${meant}?` });
  }
  return found;
});

function isAlmost(key: string, known: string): boolean {
  const [one, other] = [key, known].map((name) => name.toLowerCase().replaceAll(/[-_\s]/g, ''));
  if (one === undefined || other === undefined) return false;
  // In a short name another letter makes another word, as in host and post.
  const most = other.length < 5 ? 0 : other.length < 9 ? 1 : 2;
  return leven(one, other, { maxDistance: most + 1 }) <= most;
}
