const MAX_LIST = 100;

/** Text without white space around it and without what PostgreSQL cannot store, which models do write. */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed().trim();
}

/** The texts of a list, each once; empty ones and those that are too long are left out. */
export function cleanList(list: readonly unknown[], maxLength = Infinity): string[] {
  const texts = list.filter((value) => typeof value === 'string').map(cleanText);
  return [...new Set(texts)]
    .filter((text) => text !== '' && text.length <= maxLength)
    .slice(0, MAX_LIST);
}
