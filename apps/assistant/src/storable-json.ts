/**
 * A value as JSON that PostgreSQL stores: texts of models and of strangers may hold NUL characters and halves
 * of surrogate pairs, which `jsonb` refuses.
 */
export function storableJson(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === 'string' ? storable(member) : member,
  );
}

/** A text that PostgreSQL stores. */
export function storable(text: string): string {
  return text.replaceAll('\0', '').toWellFormed();
}
