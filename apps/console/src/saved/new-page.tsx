import '../cards/styles.ts';
import { readField } from '../cards/dialogs.tsx';
import { Button, Group, NativeSelect, Stack, Text, TextInput, Title } from '@mantine/core';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { settingsQuery } from '../start/settings.ts';
import { request } from '../api.ts';
import { CardSkeletons, ListingCard } from '../cards/card.tsx';
import { useMessages } from '../i18n/language.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { readSearch } from '../search/address.ts';
import { useTitle } from '../shell/title.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { FilterList, useFilterTexts } from './filters.tsx';
import { savedMessages } from './messages.ts';
import { previewQuery, type SavedFilters, savedSearchesQuery, toSavedFilters } from './queries.ts';
import classes from './saved.module.css';

const MAX_NAME_LENGTH = 100;
const DEFAULT_MINUTES = 60;

/** Form that saves the search of the address, with what it finds now. */
export function NewSavedPage() {
  const texts = usePartMessages(savedMessages);
  useTitle(texts.newTitle);
  const { searchStr } = useLocation();
  const search = toSavedFilters(readSearch(new URLSearchParams(searchStr)));
  return (
    <Stack maw={860} mx="auto">
      <Title order={1} size="h2">
        {texts.newTitle}
      </Title>
      {Object.keys(search).length === 0 ? (
        <AddressForm />
      ) : (
        <SaveForm key={searchStr} search={search} />
      )}
    </Stack>
  );
}

/** Asks for the address of a search. */
function AddressForm() {
  const texts = usePartMessages(savedMessages);
  const navigate = useNavigate();
  const [isWrong, setIsWrong] = useState(false);
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const address = readField(event.currentTarget, 'address');
        const params = URL.parse(address, location.origin)?.searchParams;
        const isUsable = params !== undefined && Object.keys(readSearch(params)).length > 0;
        setIsWrong(!isUsable);
        if (isUsable) void navigate({ href: `/app/saved/new?${params}` });
      }}
    >
      <Group align="end">
        <TextInput
          className={classes.grow}
          name="address"
          label={texts.address}
          description={texts.addressHelp}
          error={isWrong && texts.noFilters}
          required
        />
        <Button type="submit">{texts.use}</Button>
      </Group>
    </form>
  );
}

function SaveForm({ search }: { search: SavedFilters }) {
  const texts = usePartMessages(savedMessages);
  const { name, save } = usePartMessages(words);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const create = useMutation({
    meta: { isHandled: true },
    mutationFn: (body: { name: string; every_minutes: number }) =>
      request('/saved-searches', { method: 'POST', body: { ...body, search } }),
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: savedSearchesQuery.queryKey });
      await navigate({ to: '/app/saved' });
    },
  });
  const filters = useFilterTexts(search);
  return (
    <>
      <FilterList filters={filters} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate({
            name: readField(event.currentTarget, 'name'),
            every_minutes: Number(readField(event.currentTarget, 'every')),
          });
        }}
      >
        <Group align="end">
          <TextInput
            className={classes.grow}
            name="name"
            label={name}
            defaultValue={filters.join(' · ').slice(0, MAX_NAME_LENGTH)}
            maxLength={MAX_NAME_LENGTH}
            required
          />
          <NativeSelect
            name="every"
            label={texts.every}
            defaultValue={DEFAULT_MINUTES}
            data={Object.entries(texts.frequencies).map(([value, label]) => ({ value, label }))}
          />
          <Button type="submit" loading={create.isPending}>
            {save}
          </Button>
        </Group>
        {create.error && <ProblemNotice error={create.error} />}
      </form>
      <Preview search={search} />
    </>
  );
}

function Preview({ search }: { search: SavedFilters }) {
  const texts = usePartMessages(savedMessages);
  const { listings } = useMessages();
  const { data: settings, isPending: isSettingsPending } = useQuery(settingsQuery);
  const { data, error, isPending, refetch } = useQuery({
    ...previewQuery(search, settings?.currency ?? null),
    enabled: !isSettingsPending,
  });
  if (error) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  return (
    <section aria-labelledby="preview">
      <Title order={2} size="h3" id="preview">
        {texts.preview}
      </Title>
      {isPending && <CardSkeletons count={4} />}
      {data && (
        <Text size="sm" c="dimmed" role="status">
          {data.items.length === 0
            ? texts.nothing
            : listings.found(data.total.value, data.total.relation === 'gte')}
        </Text>
      )}
      {data?.items.map(({ listing }) => (
        <ListingCard key={listing.listing_id} listing={listing} />
      ))}
    </section>
  );
}
