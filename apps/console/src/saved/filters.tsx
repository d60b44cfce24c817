import { useLanguage } from '../i18n/language.tsx';
import { listChips } from '../search/chips.ts';
import { type SavedFilters, toSearch } from './queries.ts';
import classes from './saved.module.css';

/** Returns the words and filters of a saved search, each in a few words. */
export function useFilterTexts(filters: SavedFilters): string[] {
  const { language, messages } = useLanguage();
  const chips = listChips(toSearch(filters), { language, texts: messages.listings });
  return [
    ...(filters.query === undefined ? [] : [filters.query]),
    ...chips.map(({ text }) => text),
  ];
}

/** Words and filters of a search. */
export function FilterList({ filters }: { filters: readonly string[] }) {
  return (
    <ul className={classes.filters}>
      {filters.map((filter) => (
        <li key={filter} dir="auto">
          {filter}
        </li>
      ))}
    </ul>
  );
}
