import {
  Button,
  Center,
  Checkbox,
  Grid,
  Group,
  NativeSelect,
  Skeleton,
  Stack,
  Text,
  TextInput,
  Title,
} from '@mantine/core';
import { IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useLocation, useNavigate } from '@tanstack/react-router';
import { useMemo } from 'react';
import { useMessages } from '../i18n/language.tsx';
import { ProblemNotice } from '../shell/problem.tsx';
import { type Filters, ORDERS, readSearch, type Search, writeSearch } from './address.ts';
import { type FacetValue, facetsQuery, hitsQuery } from './queries.ts';
import { Row } from './row.tsx';

const FACETS = ['deal_type', 'property_type', 'city', 'district', 'source_slug'] as const;
type FacetName = (typeof FACETS)[number];
/** Number of values of a facet that are shown. */
const SHOWN_VALUES = 8;

/** Search over all listings. The address holds the whole search, so it can be copied and gone back to. */
export function SearchPage() {
  const messages = useMessages();
  const navigate = useNavigate();
  const { searchStr } = useLocation();
  const search = useMemo(() => readSearch(new URLSearchParams(searchStr)), [searchStr]);
  const change = (changes: Partial<Search>) => {
    const params = writeSearch({ ...search, ...changes });
    void navigate({ href: `/app/search?${params}` });
  };
  const { q = '', sort = 'newest' } = search;
  return (
    <Stack>
      <Title order={1} size="h3">
        {messages.search}
      </Title>
      <form
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          change({ q: String(new FormData(event.currentTarget).get('q')) });
        }}
      >
        <TextInput
          key={q}
          name="q"
          defaultValue={q}
          size="md"
          leftSection={<IconSearch size={18} aria-hidden />}
          aria-label={messages.search}
          placeholder={messages.searchBox}
          maxLength={500}
        />
      </form>
      <Grid>
        <Grid.Col span={{ base: 12, md: 3 }} visibleFrom="md">
          <FacetPanel search={search} onChange={change} />
        </Grid.Col>
        <Grid.Col span={{ base: 12, md: 9 }}>
          {q === '' && (
            <Group justify="end">
              <NativeSelect
                aria-label={messages.sort.label}
                value={sort}
                data={ORDERS.map((value) => ({ value, label: messages.sort[value] }))}
                onChange={({ currentTarget }) =>
                  change({ sort: ORDERS.find((order) => order === currentTarget.value) })
                }
              />
            </Group>
          )}
          <Results search={search} />
        </Grid.Col>
      </Grid>
    </Stack>
  );
}

function FacetPanel({
  search,
  onChange,
}: {
  search: Search;
  onChange: (changes: Partial<Search>) => void;
}) {
  const messages = useMessages();
  const { data } = useQuery(facetsQuery(search));
  return (
    <Stack>
      {FACETS.map((name) => (
        <FacetGroup
          key={name}
          label={messages.facets[name]}
          values={data?.facets[name]?.values ?? []}
          chosen={[search[name] ?? []].flat()}
          onChange={(values) => onChange(toFilter(name, values))}
        />
      ))}
    </Stack>
  );
}

function toFilter(name: FacetName, values: string[]): Filters {
  if (name === 'deal_type') return { deal_type: values.at(-1) };
  return { [name]: values.length === 0 ? undefined : values };
}

function FacetGroup({
  label,
  values,
  chosen,
  onChange,
}: {
  label: string;
  values: readonly FacetValue[];
  chosen: string[];
  onChange: (chosen: string[]) => void;
}) {
  const messages = useMessages();
  if (values.length === 0) return null;
  return (
    <Checkbox.Group label={label} value={chosen} onChange={onChange}>
      <Stack gap={6} mt={6}>
        {values.slice(0, SHOWN_VALUES).map(({ value, count, place_id: id }) => (
          <Checkbox
            key={id ?? value}
            value={value}
            label={`${messages.values[value] ?? value} (${count.toLocaleString()})`}
          />
        ))}
      </Stack>
    </Checkbox.Group>
  );
}

function Results({ search }: { search: Search }) {
  const messages = useMessages();
  const { data, error, isPending, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } =
    useInfiniteQuery(hitsQuery(search));
  if (error) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (isPending) return <Skeleton height={480} />;
  const total = data.pages[0]?.total;
  const hits = data.pages.flatMap(({ items }) => items);
  if (total === undefined || hits.length === 0) {
    return (
      <Center p="xl">
        <Text>{messages.nothingFound}</Text>
      </Center>
    );
  }
  return (
    <Stack gap={0}>
      <Text size="sm" c="dimmed" role="status">
        {messages.found(total.value, total.relation === 'gte')}
      </Text>
      {hits.map((hit) => (
        <Row key={hit.listing.listing_id} hit={hit} />
      ))}
      {hasNextPage && (
        <Button
          variant="default"
          loading={isFetchingNextPage}
          onClick={() => void fetchNextPage()}
          m="md"
        >
          {messages.loadMore}
        </Button>
      )}
    </Stack>
  );
}
