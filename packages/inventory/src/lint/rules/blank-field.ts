import { KNOWN_KEYS, REQUIRED_KEYS } from '../fields.ts';
import { type Found, simpleRule } from '../rule.ts';

/** Finds known properties that are empty or blank. */
export const blankField = simpleRule('lint/blank-field', 'warning', (fields) => {
  const found: Found[] = [];
  // Fields inherit no enumerable property, and this is the fastest way through their own.
  for (const key in fields) {
    const value = fields[key];
    if (typeof value !== 'string' || value.trim() !== '' || !KNOWN_KEYS.has(key)) continue;
    found.push({ key, message: `${key} is blank; ${adviceOn(key)}` });
  }
  return found;
});

/** A required property cannot be left out, nor one that another rule asks for. */
function adviceOn(key: string): string {
  if (key === 'owner_host') return 'name the machine or team that runs it';
  if (key === 'last_reviewed') return 'write the day of the last review, as in 2026-11-20';
  return REQUIRED_KEYS.has(key)
    ? 'it is required: say what it is'
    : 'say what it is, or leave the property out';
}
