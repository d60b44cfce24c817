import '../cards/styles.ts';
import { Button, Group, Stack, Text, Title } from '@mantine/core';
import { IconLayoutKanban, IconPlus, IconUsers } from '@tabler/icons-react';
import { useInfiniteQuery, useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { request } from '../api.ts';
import { NameDialog } from '../cards/dialogs.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { useTitle } from '../shell/title.ts';
import { EmptyNotice, ProblemNotice } from '../shell/problem.tsx';
import classes from './boards.module.css';
import { boardMessages } from './messages.ts';
import { type Board, boardsQuery } from './queries.ts';

const MAX_NAME_LENGTH = 100;

/** The boards of the user. */
export function BoardsPage() {
  const texts = usePartMessages(boardMessages);
  useTitle(texts.title);
  const { showMore } = usePartMessages(words);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [isCreating, setIsCreating] = useState(false);
  const { data, error, refetch, hasNextPage, fetchNextPage } = useInfiniteQuery(boardsQuery);
  const create = useMutation({
    meta: { isHandled: true },
    mutationFn: (name: string) => request<Board>('/boards', { method: 'POST', body: { name } }),
    onSuccess: ({ id }) => {
      void queryClient.invalidateQueries({ queryKey: boardsQuery.queryKey });
      void navigate({ to: '/app/boards/$id', params: { id } });
    },
  });
  const boards = data?.pages.flatMap((part) => part.data);
  return (
    <Stack maw={860} mx="auto">
      <Group justify="space-between">
        <Title order={1} size="h2">
          {texts.title}
        </Title>
        <Button
          leftSection={<IconPlus size={18} aria-hidden />}
          onClick={() => setIsCreating(true)}
        >
          {texts.create}
        </Button>
      </Group>
      <Text c="dimmed">{texts.text}</Text>
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {boards?.length === 0 && (
        <EmptyNotice icon={<IconLayoutKanban size={40} stroke={1.3} />} title={texts.none}>
          {texts.noneHint}
        </EmptyNotice>
      )}
      <ul className={classes.boards}>
        {boards?.map(({ id, name, item_count: items, member_count: members, role }) => (
          <li key={id}>
            <Link to="/app/boards/$id" params={{ id }} className={classes.board}>
              <b dir="auto">{name}</b>
              <span>{texts.listings(items)}</span>
              <span>
                <IconUsers size={14} aria-hidden /> {texts.members(members)}
                {role !== null && ` · ${texts.roles[role]}`}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      {hasNextPage && (
        <Button variant="subtle" onClick={() => void fetchNextPage()}>
          {showMore}
        </Button>
      )}
      <NameDialog
        isOpen={isCreating}
        onClose={() => setIsCreating(false)}
        title={texts.create}
        maxLength={MAX_NAME_LENGTH}
        onSave={(name) => create.mutate(name)}
        isPending={create.isPending}
        error={create.error}
      />
    </Stack>
  );
}
