import { Button, TextInput } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import { IconPinFilled, IconPlus, IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { Highlight } from '../listings/row.tsx';
import { ProblemNotice } from '../shell/problem.tsx';
import classes from './chat.module.css';
import { chatMessages } from './messages.ts';
import { conversationSearchQuery, sessionsQuery } from './queries.ts';

const TYPING_PAUSE_MS = 250;
const MAX_QUERY_LENGTH = 200;

/** The user's conversations, or those that have the searched words. */
export function Sidebar({ userId }: { userId: string }) {
  const texts = usePartMessages(chatMessages);
  const [words, setWords] = useState('');
  const [query] = useDebouncedValue(words.trim(), TYPING_PAUSE_MS);
  return (
    <nav className={classes.sidebar} aria-label={texts.sessions}>
      <Button component={Link} to="/app/chat" leftSection={<IconPlus size={18} aria-hidden />}>
        {texts.newChat}
      </Button>
      <TextInput
        type="search"
        value={words}
        maxLength={MAX_QUERY_LENGTH}
        aria-label={texts.search}
        placeholder={texts.search}
        leftSection={<IconSearch size={16} aria-hidden />}
        onChange={({ currentTarget }) => setWords(currentTarget.value)}
      />
      {words.trim() === '' ? <Sessions userId={userId} /> : <Hits query={query} />}
    </nav>
  );
}

function Sessions({ userId }: { userId: string }) {
  const texts = usePartMessages(chatMessages);
  const { language } = useLanguage();
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } =
    useInfiniteQuery(sessionsQuery(userId));
  if (isPending) return null;
  if (error) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  const sessions = data.pages.flatMap((part) => part.data);
  const ordered = [
    ...sessions.filter(({ pinned }) => pinned),
    ...sessions.filter(({ pinned }) => !pinned),
  ];
  if (ordered.length === 0) return <p className={classes.empty}>{texts.noSessions}</p>;
  return (
    <div className={classes.list}>
      <ul>
        {ordered.map(({ session_id: id, name, pinned, last_active: time }) => (
          <li key={id}>
            <Link to="/app/chat/$id" params={{ id }} className={classes.session}>
              <span className={classes.sessionName} dir="auto">
                {name || texts.untitled}
              </span>
              {pinned && <IconPinFilled size={12} aria-label={texts.pinned} />}
              <time dateTime={time}>{formatDay(time, language)}</time>
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <Button variant="subtle" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {texts.showMore}
        </Button>
      )}
    </div>
  );
}

function Hits({ query }: { query: string }) {
  const texts = usePartMessages(chatMessages);
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } =
    useInfiniteQuery(conversationSearchQuery(query));
  if (error) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (isPending) return null;
  const hits = data.pages.flatMap((part) => part.data);
  if (hits.length === 0) return <p className={classes.empty}>{texts.noHits}</p>;
  return (
    <div className={classes.list}>
      <ul>
        {hits.map(({ session_id: id, session_name: name, message_id: messageId, highlight }) => (
          <li key={`${id}-${messageId}`}>
            <Link to="/app/chat/$id" params={{ id }} className={classes.hit}>
              <b dir="auto">{name || texts.untitled}</b>
              <span dir="auto">
                <Highlight text={highlight} />
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <Button variant="subtle" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {texts.showMore}
        </Button>
      )}
    </div>
  );
}

/** Writes the time of a day today, and the day otherwise. */
function formatDay(time: string, language: string): string {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date().toDateString();
  const options: Intl.DateTimeFormatOptions = isToday
    ? { hour: '2-digit', minute: '2-digit' }
    : { day: 'numeric', month: 'short' };
  return date.toLocaleString(language, options);
}
