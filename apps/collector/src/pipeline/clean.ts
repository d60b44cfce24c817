const MAX_LIST = 100;

/** Text without white space around it and without what PostgreSQL cannot store, which models do write. */
export function cleanText(text: string): string {
  return text.replaceAll('\0', '').toWellFormed().trim();
}

/** The texts of a list, each once; empty ones are left out. */
export function cleanList(list: readonly unknown[]): string[] {
  const texts = list.filter((value) => typeof value === 'string').map(cleanText);
  return [...new Set(texts)].filter((text) => text !== '').slice(0, MAX_LIST);
}
