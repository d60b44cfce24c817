/**
 * A value as JSON that PostgreSQL stores: texts of models and of strangers may hold NUL characters and halves
 * of surrogate pairs, which `jsonb` refuses.
 */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value);
  // Both are written as escapes, so that most values need not be gone through one by one.
  return UNSTORABLE.test(json) ? mended(value) : json;
}

/** A NUL character or half of a pair in JSON, or a text that speaks of them. */
const UNSTORABLE = /\\u(?:0000|d[89a-f])/;

function mended(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member === 'string') return storable(member);
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(
      Object.entries(member).map(([name, entry]) => [storable(name), entry]),
    );
  });
}

/** A text that PostgreSQL stores. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}

/**
 * Returns whether a value is a text that the database returns unchanged, and not empty: PostgreSQL stores no NUL, and
 * UTF-8 has no lone surrogates.
 * @param maxLength In UTF-16 code units.
 */
export function isStorable(value: unknown, maxLength: number): value is string {
  return (
    typeof value === 'string' &&
    value !== '' &&
    value.length <= maxLength &&
    !value.includes('\0') &&
    value.isWellFormed()
  );
}
