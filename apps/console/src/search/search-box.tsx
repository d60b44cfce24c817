import { useDebouncedValue } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { IconSearch, IconX } from '@tabler/icons-react';
import { type KeyboardEvent, useEffect, useId, useRef, useState } from 'react';
import { useMessages } from '../i18n/language.tsx';
import { translateValue } from '../listings/format.ts';
import { useKeys } from '../shell/keys.ts';
import type { Search, SearchChanges } from './address.ts';
import { type Suggestion, suggestionsQuery } from './queries.ts';
import classes from './search.module.css';

const DEBOUNCE_MS = 120;
const MAX_LENGTH = 500;

/** Box for the words of a search. While the user types, it offers filters for the last word. */
export function SearchBox({
  search,
  onChange,
}: {
  search: Search;
  onChange: (changes: SearchChanges) => void;
}) {
  const { listings: texts } = useMessages();
  const listId = useId();
  const input = useRef<HTMLInputElement>(null);
  const [text, setText] = useState(search.q ?? '');
  const [isOpen, setOpen] = useState(false);
  const [activeIndex, setActiveIndex] = useState(-1);
  const lastWord = /[^\s,]+$/.exec(text)?.[0] ?? '';
  const [suggestedWord] = useDebouncedValue(lastWord, DEBOUNCE_MS);
  const { data = [] } = useQuery(suggestionsQuery(suggestedWord));
  const suggestions = isOpen && lastWord.length > 1 ? data : [];
  // The address may change by itself, such as by going back.
  useEffect(() => setText(search.q ?? ''), [search.q]);
  useKeys({ '/': () => input.current?.select() });

  const submit = (q: string, changes: SearchChanges = {}) => {
    setOpen(false);
    setActiveIndex(-1);
    onChange({ ...changes, q: q.trim() || undefined });
  };
  const choose = ({ kind, value }: Suggestion) => {
    const rest = text.slice(0, text.length - lastWord.length).trim();
    setText(rest);
    submit(rest, { [kind]: [...new Set([...(search[kind] ?? []), value])] });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const active = suggestions[activeIndex];
    if (step !== undefined && suggestions.length > 0) {
      event.preventDefault();
      const count = suggestions.length + 1;
      setActiveIndex(((activeIndex + 1 + step + count) % count) - 1);
    } else if (event.key === 'Enter' && active !== undefined) {
      event.preventDefault();
      choose(active);
    } else if (event.key === 'Escape' && suggestions.length > 0) {
      event.preventDefault();
      setOpen(false);
    }
  };
  return (
    <form
      role="search"
      className={classes.box}
      onSubmit={(event) => {
        event.preventDefault();
        submit(text);
      }}
    >
      <div className={classes.field}>
        <IconSearch size={20} stroke={1.7} aria-hidden />
        <input
          ref={input}
          role="combobox"
          aria-label={texts.submitSearch}
          aria-expanded={suggestions.length > 0}
          aria-controls={listId}
          aria-autocomplete="list"
          aria-activedescendant={activeIndex >= 0 ? `${listId}-${activeIndex}` : undefined}
          autoComplete="off"
          enterKeyHint="search"
          maxLength={MAX_LENGTH}
          placeholder={texts.searchBox}
          value={text}
          onChange={({ currentTarget: { value } }) => {
            setText(value);
            setOpen(true);
            setActiveIndex(-1);
          }}
          onKeyDown={onKeyDown}
          onBlur={() => setOpen(false)}
        />
        {text !== '' && (
          <button type="button" aria-label={texts.clearBox} onClick={() => submit('')}>
            <IconX size={18} aria-hidden />
          </button>
        )}
        <button type="submit" aria-label={texts.submitSearch} className={classes.submit}>
          <IconSearch size={18} aria-hidden />
          <span>{texts.submitSearch}</span>
        </button>
      </div>
      <ul id={listId} role="listbox" aria-label={texts.filters} hidden={suggestions.length === 0}>
        {suggestions.map((suggestion, index) => (
          <li
            key={`${suggestion.kind} ${suggestion.text}`}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === activeIndex}
            // The box keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => choose(suggestion)}
          >
            <span>{translateValue(suggestion.text, texts)}</span>
            <small>{texts.suggestionKinds[suggestion.kind]}</small>
          </li>
        ))}
      </ul>
    </form>
  );
}
