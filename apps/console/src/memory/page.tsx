import '../cards/styles.ts';
import { Dialog, readField } from '../cards/dialogs.tsx';
import { ActionIcon, Button, Group, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { useDebouncedValue } from '@mantine/hooks';
import {
  IconBrain,
  IconMessageCircle,
  IconPencil,
  IconPlus,
  IconSearch,
  IconTrash,
} from '@tabler/icons-react';
import {
  infiniteQueryOptions,
  queryOptions,
  useInfiniteQuery,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { request, requestPart } from '../api.ts';
import { useLanguage } from '../i18n/language.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { useTitle } from '../shell/title.ts';
import { EmptyNotice, ProblemNotice } from '../shell/problem.tsx';
import classes from './memory.module.css';
import { memoryMessages } from './messages.ts';

type Fact = {
  id: string;
  category: string;
  key: string;
  value: string;
  source_session_id: string | null;
  updated_at: string | null;
};
type FactText = Pick<Fact, 'category' | 'key' | 'value'>;

const TYPING_PAUSE_MS = 250;

const factsQuery = (query: string) =>
  infiniteQueryOptions({
    queryKey: ['facts', query],
    queryFn: ({ pageParam, signal }) => requestPart<Fact[]>(pageParam, { signal }),
    initialPageParam: `/memory/facts?${new URLSearchParams({ limit: '100', ...(query && { q: query }) })}`,
    getNextPageParam: ({ next }) => next,
    placeholderData: (previous) => previous,
    // The chat changes the memory too.
    staleTime: 0,
  });

const summaryQuery = queryOptions({
  queryKey: ['memory-summary'],
  queryFn: ({ signal }) =>
    request<{ summary: string; updated_at: string | null }>('/memory/summary', { signal }),
});

const factPath = ({ category, key }: FactText) =>
  `/memory/facts/${encodeURIComponent(category)}/${encodeURIComponent(key)}`;
const putFact = (fact: FactText) =>
  request<Fact>(factPath(fact), { method: 'PUT', body: { value: fact.value } });

/** Page of the facts that the assistant remembers about the user. */
export function MemoryPage() {
  const texts = usePartMessages(memoryMessages);
  useTitle(texts.title);
  const { showMore } = usePartMessages(words);
  const [typed, setTyped] = useState('');
  const [query] = useDebouncedValue(typed.trim(), TYPING_PAUSE_MS);
  const [isAdding, setIsAdding] = useState(false);
  const { data, error, refetch, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery(
    factsQuery(query),
  );
  const facts = data?.pages.flatMap((part) => part.data) ?? [];
  const categories = Map.groupBy(facts, ({ category }) => category);
  return (
    <Stack maw={760} mx="auto">
      <Title order={1} size="h2">
        {texts.title}
      </Title>
      <Text c="dimmed">{texts.text}</Text>
      <Group>
        <TextInput
          className={classes.search}
          type="search"
          value={typed}
          maxLength={100}
          aria-label={texts.search}
          placeholder={texts.search}
          leftSection={<IconSearch size={16} aria-hidden />}
          onChange={({ currentTarget }) => setTyped(currentTarget.value)}
        />
        <Button leftSection={<IconPlus size={18} aria-hidden />} onClick={() => setIsAdding(true)}>
          {texts.add}
        </Button>
      </Group>
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {data && facts.length === 0 && (
        <EmptyNotice
          icon={<IconBrain size={40} stroke={1.3} />}
          title={query === '' ? texts.none : texts.noHits}
        >
          {query === '' && texts.noneHint}
        </EmptyNotice>
      )}
      {[...categories].map(([category, categoryFacts]) => (
        <section key={category} aria-label={category}>
          <h2 className={classes.category} dir="auto">
            {category}
          </h2>
          <ul className={classes.facts}>
            {categoryFacts.map((fact) => (
              <FactRow key={fact.id} fact={fact} />
            ))}
          </ul>
        </section>
      ))}
      {hasNextPage && (
        <Button variant="subtle" loading={isFetchingNextPage} onClick={() => void fetchNextPage()}>
          {showMore}
        </Button>
      )}
      <Summary />
      <FactDialog isOpen={isAdding} onClose={() => setIsAdding(false)} />
    </Stack>
  );
}

function FactRow({ fact }: { fact: Fact }) {
  const texts = usePartMessages(memoryMessages);
  const { undo, edit } = usePartMessages(words);
  const { language } = useLanguage();
  const [isEditing, setIsEditing] = useState(false);
  const forget = useMutation({ mutationFn: () => request(factPath(fact), { method: 'DELETE' }) });
  const restore = useMutation({ mutationFn: () => putFact(fact), onSuccess: forget.reset });
  const { key, value, updated_at: time, source_session_id: sessionId } = fact;
  if (forget.isSuccess) {
    return (
      <li className={classes.fact} data-forgotten>
        <span role="status">
          {texts.forgotten}: {key}
        </span>
        <Button size="compact-sm" variant="light" onClick={() => restore.mutate()}>
          {undo}
        </Button>
      </li>
    );
  }
  return (
    <li className={classes.fact}>
      <div className={classes.text} dir="auto">
        <b>{key}</b>
        <span>{value}</span>
        {time !== null && (
          <small>{texts.updated(new Date(time).toLocaleDateString(language))}</small>
        )}
      </div>
      {sessionId !== null && (
        <ActionIcon
          component={Link}
          to={`/app/chat/${encodeURIComponent(sessionId)}`}
          variant="subtle"
          color="gray"
          aria-label={texts.source}
        >
          <IconMessageCircle size={18} aria-hidden />
        </ActionIcon>
      )}
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`${edit}: ${key}`}
        onClick={() => setIsEditing(true)}
      >
        <IconPencil size={18} aria-hidden />
      </ActionIcon>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={`${texts.forget}: ${key}`}
        loading={forget.isPending}
        onClick={() => forget.mutate()}
      >
        <IconTrash size={18} aria-hidden />
      </ActionIcon>
      <FactDialog isOpen={isEditing} onClose={() => setIsEditing(false)} fact={fact} />
    </li>
  );
}

function FactDialog(props: { isOpen: boolean; onClose: () => void; fact?: Fact }) {
  const { isOpen, onClose, fact } = props;
  const texts = usePartMessages(memoryMessages);
  const { save, edit } = usePartMessages(words);
  const queryClient = useQueryClient();
  const put = useMutation({
    meta: { isHandled: true },
    mutationFn: putFact,
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['facts'] });
      onClose();
    },
  });
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={fact === undefined ? texts.add : edit}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          const read = (name: string) => readField(event.currentTarget, name);
          const names = fact ?? { category: read('category'), key: read('key') };
          put.mutate({ ...names, value: read('value') });
        }}
      >
        <Stack gap="sm">
          {fact === undefined && (
            <Group grow align="start">
              <TextInput
                name="category"
                label={texts.category}
                placeholder={texts.categoryExample}
                maxLength={100}
                required
                data-autofocus
              />
              <TextInput
                name="key"
                label={texts.key}
                placeholder={texts.keyExample}
                maxLength={100}
                required
              />
            </Group>
          )}
          <Textarea
            name="value"
            label={fact === undefined ? texts.value : fact.key}
            defaultValue={fact?.value}
            maxLength={4000}
            autosize
            minRows={2}
            required
            data-autofocus={fact !== undefined || undefined}
          />
          {put.error && <ProblemNotice error={put.error} />}
          <Group justify="end">
            <Button type="submit" loading={put.isPending}>
              {save}
            </Button>
          </Group>
        </Stack>
      </form>
    </Dialog>
  );
}

function Summary() {
  const texts = usePartMessages(memoryMessages);
  const { data } = useQuery(summaryQuery);
  if (!data?.summary) return null;
  return (
    <section aria-label={texts.summary}>
      <h2 className={classes.category}>{texts.summary}</h2>
      <p className={classes.summary} dir="auto">
        {data.summary}
      </p>
    </section>
  );
}
