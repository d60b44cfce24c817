import '../cards/styles.ts';
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import {
  IconBookmark,
  IconMessageCircle,
  IconPlayerPause,
  IconPlayerPlay,
  IconPlus,
  IconSearch,
  IconTrash,
} from '@tabler/icons-react';
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { useState } from 'react';
import { settingsQuery } from '../start/settings.ts';
import { request } from '../api.ts';
import { AddressLink } from '../cards/address-link.tsx';
import { CardSkeletons, ListingCard } from '../cards/card.tsx';
import cardClasses from '../cards/cards.module.css';
import { Confirm } from '../cards/dialogs.tsx';
import { batchQuery } from '../cards/queries.ts';
import { useLanguage } from '../i18n/language.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { writeSearch } from '../search/address.ts';
import { useTitle } from '../shell/title.ts';
import { EmptyNotice, ProblemNotice } from '../shell/problem.tsx';
import { FilterList, useFilterTexts } from './filters.tsx';
import { savedMessages } from './messages.ts';
import { findsQuery, type SavedSearch, savedSearchesQuery, toSearch } from './queries.ts';
import classes from './saved.module.css';

/** The user's saved searches with their finds. */
export function SavedPage() {
  const texts = usePartMessages(savedMessages);
  useTitle(texts.title);
  const { data, error, isPending, refetch } = useQuery(savedSearchesQuery);
  return (
    <Stack maw={860} mx="auto">
      <Group justify="space-between">
        <Title order={1} size="h2">
          {texts.title}
        </Title>
        <Button
          component={Link}
          to="/app/saved/new"
          leftSection={<IconPlus size={18} aria-hidden />}
        >
          {texts.newTitle}
        </Button>
      </Group>
      <Text c="dimmed">{texts.text}</Text>
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {isPending && <CardSkeletons count={3} />}
      {data?.length === 0 && (
        <EmptyNotice icon={<IconBookmark size={40} stroke={1.3} />} title={texts.none}>
          <p>{texts.noneHint}</p>
          <Button component={Link} to="/app/search" variant="default">
            {texts.toSearch}
          </Button>
        </EmptyNotice>
      )}
      {data?.map((saved) => (
        <Saved key={saved.id} saved={saved} />
      ))}
    </Stack>
  );
}

function Saved({ saved }: { saved: SavedSearch }) {
  const texts = usePartMessages(savedMessages);
  const { remove: removeText } = usePartMessages(words);
  const { language } = useLanguage();
  const queryClient = useQueryClient();
  const [isOpen, setIsOpen] = useState(false);
  const [isRemoving, setIsRemoving] = useState(false);
  const path = `/saved-searches/${saved.id}`;
  const onSettled = () => queryClient.invalidateQueries({ queryKey: savedSearchesQuery.queryKey });
  const change = useMutation({
    mutationFn: (body: { paused: boolean }) => request(path, { method: 'PATCH', body }),
    onSettled,
  });
  const remove = useMutation({
    meta: { isHandled: true },
    mutationFn: () => request(path, { method: 'DELETE' }),
    onSettled,
  });
  const {
    name,
    search,
    every_minutes: minutes,
    paused,
    session_id: sessionId,
    told_at: time,
  } = saved;
  const filters = useFilterTexts(search);
  return (
    <section className={classes.saved} aria-label={name} data-paused={paused || undefined}>
      <header>
        <h2 dir="auto">{name}</h2>
        {paused && <span className={cardClasses.badge}>{texts.paused}</span>}
        <small>
          {texts.frequencies[minutes] ?? texts.everyMinutes(minutes)} ·{' '}
          {time === null
            ? texts.notTold
            : texts.told(
                new Date(time).toLocaleString(language, {
                  dateStyle: 'medium',
                  timeStyle: 'short',
                }),
              )}
        </small>
      </header>
      <FilterList filters={filters} />
      <div className={classes.actions}>
        <Button
          size="compact-sm"
          variant="light"
          aria-expanded={isOpen}
          onClick={() => setIsOpen(!isOpen)}
        >
          {texts.finds}
        </Button>
        <Button
          component={AddressLink}
          href={`/app/search?${writeSearch(toSearch(search))}`}
          size="compact-sm"
          variant="subtle"
          leftSection={<IconSearch size={16} aria-hidden />}
        >
          {texts.open}
        </Button>
        {sessionId !== null && (
          <Button
            component={Link}
            to={`/app/chat/${sessionId}`}
            size="compact-sm"
            variant="subtle"
            leftSection={<IconMessageCircle size={16} aria-hidden />}
          >
            {texts.chat}
          </Button>
        )}
        <Button
          size="compact-sm"
          variant="subtle"
          loading={change.isPending}
          leftSection={
            paused ? (
              <IconPlayerPlay size={16} aria-hidden />
            ) : (
              <IconPlayerPause size={16} aria-hidden />
            )
          }
          onClick={() => change.mutate({ paused: !paused })}
        >
          {paused ? texts.resume : texts.pause}
        </Button>
        <Button
          size="compact-sm"
          variant="subtle"
          color="gray"
          leftSection={<IconTrash size={16} aria-hidden />}
          onClick={() => setIsRemoving(true)}
        >
          {removeText}
        </Button>
      </div>
      {isOpen && <Finds id={saved.id} />}
      <Confirm
        isOpen={isRemoving}
        onClose={() => setIsRemoving(false)}
        title={texts.removeQuestion}
        text={texts.removeText}
        action={removeText}
        onConfirm={() => remove.mutate()}
        isPending={remove.isPending}
        error={remove.error}
      />
    </section>
  );
}

function Finds({ id }: { id: string }) {
  const texts = usePartMessages(savedMessages);
  const { showMore } = usePartMessages(words);
  const { data: settings } = useQuery(settingsQuery);
  const { data, error, isPending, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery(
    findsQuery(id),
  );
  const finds = data?.pages.flatMap((part) => part.data) ?? [];
  const ids = finds.map(({ listing_id: listingId }) => listingId);
  const listings = useQuery(batchQuery(ids, settings?.currency ?? null));
  const failure = error ?? listings.error;
  if (failure) return <ProblemNotice error={failure} onRetry={() => void refetch()} />;
  if (isPending || (ids.length > 0 && listings.isPending)) return <CardSkeletons count={3} />;
  if (finds.length === 0) return <Text c="dimmed">{texts.noFinds}</Text>;
  return (
    <div>
      {listings.data?.map((listing) => {
        const reason = finds.find((find) => find.listing_id === listing.listing_id)?.reason ?? '';
        return (
          <ListingCard
            key={listing.listing_id}
            listing={listing}
            badge={<span className={cardClasses.badge}>{texts.reasons[reason] ?? reason}</span>}
          />
        );
      })}
      {hasNextPage && (
        <Button variant="subtle" onClick={() => void fetchNextPage()}>
          {showMore}
        </Button>
      )}
    </div>
  );
}
