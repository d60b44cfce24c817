import { ActionIcon, Group } from '@mantine/core';
import { useMediaQuery } from '@mantine/hooks';
import { IconArrowLeft, IconPencil, IconPin, IconPinFilled, IconTrash } from '@tabler/icons-react';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { useCallback, useMemo, useState, useSyncExternalStore } from 'react';
import { request } from '../api.ts';
import { Confirm, NameDialog, PLAIN_HEADER } from '../cards/dialogs.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { Drawer } from '../shell/modal.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { useTitle } from '../shell/title.ts';
import { CardsPanel } from './cards-panel.tsx';
import type { Chat } from './chat.ts';
import classes from './chat.module.css';
import { Composer } from './composer.tsx';
import type { Conversation, ConversationState } from './conversation.ts';
import { LinkNotice } from './link-notice.tsx';
import { listMessageListings } from './message.tsx';
import { chatMessages } from './messages.ts';
import { toRequestError } from './problem.ts';
import { collectListingIds, type Step } from './steps.ts';
import { Thread } from './thread.tsx';

/** Width from which the listings have a column of their own. */
const WIDE = '(width >= 75em)';

/** One conversation with the listings that it is about. */
export function ConversationView({ chat, sessionId }: { chat: Chat; sessionId: string }) {
  const texts = usePartMessages(chatMessages);
  const conversation = chat.getConversation(sessionId);
  const state = useSyncExternalStore(conversation.subscribe, conversation.getState);
  useTitle(state.session?.name || texts.untitled);
  const isWide = useMediaQuery(WIDE, true, { getInitialValueInEffect: false });
  const [chosenId, setChosenId] = useState<string>();
  const [isDrawerOpen, setIsDrawerOpen] = useState(false);
  const { session, messages, openError, failure, live, pendingText, announcement } = state;
  const liveSteps = live?.steps;

  // A growing text changes neither the messages nor the steps.
  const listings = useMemo(
    () => chooseListings(conversation, { messages, liveSteps, chosenId }),
    [conversation, messages, liveSteps, chosenId],
  );
  const showListings = useCallback((messageId: string) => {
    setChosenId(messageId);
    setIsDrawerOpen(true);
  }, []);

  if (openError !== undefined && session === undefined) {
    return (
      <div className={classes.main}>
        <LinkNotice chat={chat} />
        <ProblemNotice error={toRequestError(openError)} onRetry={() => void conversation.open()} />
      </div>
    );
  }
  const panel = <CardsPanel {...listings} />;
  const isOwn = session === undefined || session.user_id === chat.userId;
  return (
    <>
      <section className={classes.main} aria-label={texts.conversation}>
        <Header chat={chat} sessionId={sessionId} state={state} />
        <Thread conversation={conversation} state={state} onShowListings={showListings} />
        <div role="status" className={classes.hidden}>
          {announcement && texts.announced[announcement]}
        </div>
        <div className={classes.foot}>
          {failure && (
            <p role="alert" className={classes.link}>
              <b>{failure.of === 'message' ? texts.notSent : texts.status.failed}</b>{' '}
              {toRequestError(failure.error).message}
            </p>
          )}
          <LinkNotice chat={chat} />
          {isOwn ? (
            <Composer
              key={sessionId}
              draftId={sessionId}
              drafts={chat.drafts}
              isPending={pendingText !== undefined}
              onSend={(text) => void conversation.send(text)}
              onStop={live && (() => void conversation.cancel())}
              isDisabled={session === undefined}
            />
          ) : (
            <p className={classes.link}>{texts.readOnly}</p>
          )}
        </div>
      </section>
      {isWide ? (
        <aside className={classes.panel} aria-label={texts.listings}>
          <h2>{texts.listings}</h2>
          {panel}
        </aside>
      ) : (
        <Drawer
          opened={isDrawerOpen}
          onClose={() => setIsDrawerOpen(false)}
          position="right"
          title={texts.listings}
          closeButtonProps={{ 'aria-label': texts.close }}
          attributes={PLAIN_HEADER}
        >
          {panel}
        </Drawer>
      )}
    </>
  );
}

/** Returns the listings of the chosen message, or else of the latest that has some. */
function chooseListings(
  { getSteps }: Conversation,
  {
    messages,
    liveSteps = [],
    chosenId,
  }: {
    messages: ConversationState['messages'];
    liveSteps: readonly Step[] | undefined;
    chosenId: string | undefined;
  },
): { ids: readonly number[]; reasons: ReadonlyMap<number, string> } {
  const liveIds = collectListingIds(liveSteps);
  const chosen = messages.find(({ id }) => id === chosenId);
  if (chosen === undefined && liveIds.length > 0) return { ids: liveIds, reasons: new Map() };
  const message =
    chosen ??
    messages.findLast(
      (candidate) => listMessageListings(candidate, getSteps(candidate)).length > 0,
    );
  return {
    ids: message === undefined ? [] : listMessageListings(message, getSteps(message)),
    reasons: new Map(message?.finds?.map(({ listing_id: id, reason }) => [id, reason])),
  };
}

type HeaderProps = { chat: Chat; sessionId: string; state: ConversationState };

function Header({ chat, sessionId, state: { session } }: HeaderProps) {
  const texts = usePartMessages(chatMessages);
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [dialog, setDialog] = useState<'rename' | 'remove'>();
  const path = `/sessions/${encodeURIComponent(sessionId)}`;
  const onSettled = () => queryClient.invalidateQueries({ queryKey: ['sessions'] });
  const change = useMutation({
    meta: { isHandled: true },
    mutationFn: (body: { name?: string; pinned?: boolean }) =>
      request(path, { method: 'PATCH', body }),
    onSuccess: () => setDialog(undefined),
    onSettled,
  });
  const remove = useMutation({
    meta: { isHandled: true },
    mutationFn: () => request(path, { method: 'DELETE' }),
    onSuccess: () => {
      chat.removeConversation(sessionId);
      void navigate({ to: '/app/chat' });
    },
    onSettled,
  });
  const isPinned = session?.pinned === true;
  const close = () => setDialog(undefined);
  return (
    <header className={classes.header}>
      <Link to="/app/chat" className={classes.back} aria-label={texts.back}>
        <IconArrowLeft size={20} aria-hidden />
      </Link>
      <h1 dir="auto">{session?.name || texts.untitled}</h1>
      {session !== undefined && session.user_id === chat.userId && (
        <Group gap={4} wrap="nowrap">
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={isPinned ? texts.unpin : texts.pin}
            aria-pressed={isPinned}
            onClick={() => change.mutate({ pinned: !isPinned })}
          >
            {isPinned ? <IconPinFilled size={18} /> : <IconPin size={18} />}
          </ActionIcon>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={texts.rename}
            onClick={() => setDialog('rename')}
          >
            <IconPencil size={18} aria-hidden />
          </ActionIcon>
          <ActionIcon
            variant="subtle"
            color="gray"
            aria-label={texts.remove}
            onClick={() => setDialog('remove')}
          >
            <IconTrash size={18} aria-hidden />
          </ActionIcon>
        </Group>
      )}
      <NameDialog
        isOpen={dialog === 'rename'}
        onClose={close}
        title={texts.rename}
        name={session?.name}
        maxLength={200}
        onSave={(name) => change.mutate({ name })}
        isPending={change.isPending}
        error={change.error}
      />
      <Confirm
        isOpen={dialog === 'remove'}
        onClose={close}
        title={texts.removeQuestion}
        text={texts.removeText}
        action={texts.remove}
        onConfirm={() => remove.mutate()}
        isPending={remove.isPending}
        error={remove.error}
      />
    </header>
  );
}
