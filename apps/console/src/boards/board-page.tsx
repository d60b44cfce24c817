import '../cards/styles.ts';
import { ActionIcon, Button, Group, Stack, Text, TextInput, Title } from '@mantine/core';
import { IconArrowLeft, IconPencil, IconTrash, IconUsers } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams } from '@tanstack/react-router';
import { useState } from 'react';
import { settingsQuery } from '../start/settings.ts';
import { request } from '../api.ts';
import { CardSkeletons } from '../cards/card.tsx';
import { Confirm, NameDialog } from '../cards/dialogs.tsx';
import { batchQuery, MAX_BATCH_SIZE } from '../cards/queries.ts';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { useTitle } from '../shell/title.ts';
import { userQuery } from '../start/session.ts';
import classes from './boards.module.css';
import { BoardItem } from './item.tsx';
import { MembersDialog } from './members.tsx';
import { boardMessages } from './messages.ts';
import { type Board, boardQuery, type Item, type OpenBoard } from './queries.ts';

/** One board with its listings. */
export function BoardPage() {
  const { id = '' } = useParams({ strict: false });
  const { data: user } = useSuspenseQuery(userQuery);
  const { data: board, error, refetch } = useQuery(boardQuery(id));
  if (user === null) return null;
  return (
    <Stack maw={1040} mx="auto">
      {error && <ProblemNotice error={error} onRetry={() => void refetch()} />}
      {board ? <BoardView board={board} userId={user.id} /> : !error && <CardSkeletons count={4} />}
    </Stack>
  );
}

function BoardView({ board, userId }: { board: OpenBoard; userId: string }) {
  const texts = usePartMessages(boardMessages);
  const queryClient = useQueryClient();
  const { data: settings } = useQuery(settingsQuery);
  const ids = board.items.map(({ listing_id: id }) => id);
  const currency = settings?.currency ?? null;
  // A board has at most twice as many listings as a request.
  const first = useQuery(batchQuery(ids.slice(0, MAX_BATCH_SIZE), currency));
  const second = useQuery(batchQuery(ids.slice(MAX_BATCH_SIZE), currency));
  const listings = new Map(
    [...(first.data ?? []), ...(second.data ?? [])].map((listing) => [listing.listing_id, listing]),
  );
  const { queryKey } = boardQuery(board.id);
  const canEdit = board.role !== 'viewer';
  const updateItem = (item: Item) =>
    queryClient.setQueryData(queryKey, (current) =>
      current === undefined
        ? undefined
        : {
            ...current,
            items: current.items.map((other) =>
              other.listing_id === item.listing_id ? item : other,
            ),
          },
    );
  return (
    <>
      <BoardHeader board={board} userId={userId} />
      {canEdit && <AddListing boardId={board.id} />}
      {board.items.length === 0 && (
        <Text c="dimmed">{canEdit ? texts.empty : texts.emptyViewer}</Text>
      )}
      <ol className={classes.items}>
        {board.items.map((item, index) => (
          <BoardItem
            key={item.listing_id}
            board={board}
            item={item}
            index={index}
            userId={userId}
            listing={listings.get(item.listing_id)}
            isLoading={first.isPending || (ids.length > MAX_BATCH_SIZE && second.isPending)}
            onUpdate={updateItem}
            onChange={() => void queryClient.invalidateQueries({ queryKey, exact: true })}
          />
        ))}
      </ol>
    </>
  );
}

function BoardHeader({ board, userId }: { board: OpenBoard; userId: string }) {
  const texts = usePartMessages(boardMessages);
  useTitle(board.name);
  const { rename, remove: removeText } = usePartMessages(words);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [dialog, setDialog] = useState<'rename' | 'remove' | 'members'>();
  const path = `/boards/${board.id}`;
  const close = () => setDialog(undefined);
  const refresh = () => queryClient.invalidateQueries({ queryKey: ['boards'] });
  const change = useMutation({
    meta: { isHandled: true },
    mutationFn: (name: string) => request<Board>(path, { method: 'PATCH', body: { name } }),
    onSuccess: async () => {
      await refresh();
      close();
    },
  });
  const remove = useMutation({
    meta: { isHandled: true },
    mutationFn: () => request(path, { method: 'DELETE' }),
    onSuccess: async () => {
      queryClient.removeQueries({ queryKey: boardQuery(board.id).queryKey });
      await navigate({ to: '/app/boards' });
      await refresh();
    },
  });
  const isOwner = board.role === 'owner' || board.role === null;
  return (
    <header className={classes.header}>
      <ActionIcon
        component={Link}
        to="/app/boards"
        variant="subtle"
        color="gray"
        aria-label={texts.back}
      >
        <IconArrowLeft size={20} aria-hidden />
      </ActionIcon>
      <Title order={1} size="h2" dir="auto">
        {board.name}
      </Title>
      <Group gap={4} ml="auto">
        <Button
          variant="default"
          size="xs"
          leftSection={<IconUsers size={16} aria-hidden />}
          onClick={() => setDialog('members')}
        >
          {texts.members(board.members.length)}
        </Button>
        {isOwner && (
          <>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={rename}
              onClick={() => setDialog('rename')}
            >
              <IconPencil size={18} aria-hidden />
            </ActionIcon>
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={removeText}
              onClick={() => setDialog('remove')}
            >
              <IconTrash size={18} aria-hidden />
            </ActionIcon>
          </>
        )}
      </Group>
      <MembersDialog
        isOpen={dialog === 'members'}
        onClose={close}
        board={board}
        userId={userId}
        canManage={isOwner}
      />
      <NameDialog
        isOpen={dialog === 'rename'}
        onClose={close}
        title={rename}
        name={board.name}
        maxLength={100}
        onSave={(name) => change.mutate(name)}
        isPending={change.isPending}
        error={change.error}
      />
      <Confirm
        isOpen={dialog === 'remove'}
        onClose={close}
        title={texts.removeQuestion}
        text={texts.removeText}
        action={removeText}
        onConfirm={() => remove.mutate()}
        isPending={remove.isPending}
        error={remove.error}
      />
    </header>
  );
}

function AddListing({ boardId }: { boardId: string }) {
  const texts = usePartMessages(boardMessages);
  const { add } = usePartMessages(words);
  const queryClient = useQueryClient();
  const [text, setText] = useState('');
  const [isWrong, setIsWrong] = useState(false);
  const create = useMutation({
    mutationFn: (listingId: number) =>
      request(`/boards/${boardId}/items`, { method: 'POST', body: { listing_id: listingId } }),
    onSuccess: async () => {
      setText('');
      await queryClient.invalidateQueries({ queryKey: ['boards'] });
    },
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const id = /(\d{1,15})\/?\s*$/.exec(text)?.[1];
        setIsWrong(id === undefined);
        if (id !== undefined) create.mutate(Number(id));
      }}
    >
      <Group align="start">
        <TextInput
          className={classes.grow}
          aria-label={texts.listingNumber}
          placeholder={texts.listingNumber}
          value={text}
          error={isWrong && texts.wrongNumber}
          onChange={({ currentTarget }) => setText(currentTarget.value)}
        />
        <Button
          type="submit"
          variant="light"
          loading={create.isPending}
          aria-label={texts.addListing}
        >
          {add}
        </Button>
      </Group>
    </form>
  );
}
