import '../cards/styles.ts';
import { NativeSelect } from '@mantine/core';
import { useQuery, useQueryClient, useSuspenseQuery } from '@tanstack/react-query';
import { Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router';
import { useEffect, useState } from 'react';
import { usePartMessages } from '../i18n/part.ts';
import { Logo } from '../shell/logo.tsx';
import { useTitle } from '../shell/title.ts';
import { endSession, userQuery } from '../start/session.ts';
import { getChat } from './chat.ts';
import classes from './chat.module.css';
import { Composer } from './composer.tsx';
import { ConversationView } from './conversation-view.tsx';
import { LinkNotice } from './link-notice.tsx';
import { chatMessages } from './messages.ts';
import { toRequestError } from './problem.ts';
import { profilesQuery } from './queries.ts';
import { Sidebar } from './sidebar.tsx';

/** Key of the draft of a conversation that does not exist yet. */
const NEW_DRAFT = 'new';

/** Frame of the chat: the conversations, and the one that is open. */
export function ChatPage() {
  const { data: user } = useSuspenseQuery(userQuery);
  const queryClient = useQueryClient();
  const { id } = useParams({ strict: false });
  useEffect(() => {
    if (user === null) return;
    const chat = getChat(user.id);
    chat.onSessionsChanged = () => void queryClient.invalidateQueries({ queryKey: ['sessions'] });
    chat.onSignedOut = () => endSession(queryClient);
    // The state of the connection says when it fails.
    chat.getClient().catch(() => undefined);
  }, [user, queryClient]);
  if (user === null) return null;
  return (
    <div className={classes.root} data-open={id !== undefined || undefined}>
      <Sidebar userId={user.id} />
      <Outlet />
    </div>
  );
}

/** Conversation of the address. */
export function ConversationPage() {
  const { data: user } = useSuspenseQuery(userQuery);
  const { id } = useParams({ strict: false });
  if (user === null || id === undefined) return null;
  return <ConversationView key={id} chat={getChat(user.id)} sessionId={id} />;
}

/** Beginning of a conversation, which is created with its first message. */
export function NewChatPage() {
  const { data: user } = useSuspenseQuery(userQuery);
  return user && <NewChat userId={user.id} />;
}

function NewChat({ userId }: { userId: string }) {
  const texts = usePartMessages(chatMessages);
  useTitle(texts.title);
  const navigate = useNavigate();
  const { searchStr } = useLocation();
  const chat = getChat(userId);
  const { data: profiles = [] } = useQuery(profilesQuery);
  const [profileId, setProfileId] = useState<string>();
  const [isSending, setIsSending] = useState(false);
  const [error, setError] = useState<unknown>();
  const listingId = new URLSearchParams(searchStr).get('listing');
  const about = listingId === null ? '' : texts.aboutListing(listingId);
  const usable = profiles.filter(({ fault }) => fault === undefined);
  const send = async (text: string) => {
    setIsSending(true);
    chat.drafts.writeDraft(NEW_DRAFT, text);
    try {
      const sessionId = await chat.createSession(profileId);
      chat.drafts.writeDraft(NEW_DRAFT, '');
      void chat.getConversation(sessionId).send(text);
      await navigate({ to: '/app/chat/$id', params: { id: sessionId } });
    } catch (failure) {
      setError(failure);
    } finally {
      setIsSending(false);
    }
  };
  return (
    <section className={classes.main}>
      <div className={classes.greeting}>
        <Logo size={48} />
        <h1>{texts.greeting}</h1>
        <p>{texts.greetingText}</p>
        <ul>
          {texts.examples.map((example) => (
            <li key={example}>
              <button type="button" disabled={isSending} onClick={() => void send(example)}>
                {example}
              </button>
            </li>
          ))}
        </ul>
      </div>
      <div className={classes.foot}>
        {error !== undefined && (
          <p role="alert" className={classes.link}>
            <b>{texts.notSent}</b> {toRequestError(error).message}
          </p>
        )}
        <LinkNotice chat={chat} />
        <Composer
          draftId={NEW_DRAFT}
          drafts={chat.drafts}
          initialText={about}
          isPending={isSending}
          onSend={(text) => void send(text)}
        >
          {usable.length > 1 && (
            <NativeSelect
              size="xs"
              aria-label={texts.profile}
              value={profileId ?? 'default'}
              data={usable.map(({ profile_id: value, name }) => ({ value, label: name }))}
              onChange={({ currentTarget }) => setProfileId(currentTarget.value)}
            />
          )}
        </Composer>
      </div>
    </section>
  );
}
