const MAX_LIST = 100;

/** Of a model's or a server's message: more would tell nobody more. */
const MAX_MESSAGE = 1000;

/**
 * Returns a short text on one line: with single spaces between its words, none around it, and without what
 * PostgreSQL cannot store. Sources and models write line breaks and NUL characters into any field.
 */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed().replaceAll(/\s+/gu, ' ').trim();
}

/**
 * The beginning of a text, at most so many UTF-16 code units: one less where a character would be cut in two, since
 * PostgreSQL stores no half of one.
 */
export function cutText(text: string, maxLength: number): string {
  const isPair = (text.codePointAt(maxLength - 1) ?? 0) > 0xffff;
  return text.slice(0, isPair ? maxLength - 1 : maxLength);
}

/** A message of a model or a server as a record has it: they are of any length, and not all can be stored. */
export function storableMessage(message: string): string {
  return cutText(cleanText(message), MAX_MESSAGE);
}

/** The texts of a list, each once; empty ones and those that are too long are left out. */
export function cleanList(list: readonly unknown[], maxLength = Infinity): string[] {
  const texts = list.filter((value) => typeof value === 'string').map(cleanText);
  return [...new Set(texts)]
    .filter((text) => text !== '' && text.length <= maxLength)
    .slice(0, MAX_LIST);
}
