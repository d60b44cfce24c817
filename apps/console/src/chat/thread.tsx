import { ActionIcon } from '@mantine/core';
import { IconArrowDown } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useRef, useState } from 'react';
import { usePartMessages } from '../i18n/part.ts';
import classes from './chat.module.css';
import type { Conversation, ConversationState } from './conversation.ts';
import { LiveMessage, Question, StoredMessage } from './message.tsx';
import { chatMessages } from './messages.ts';

/** Distance from the end, in pixels, within which the view follows new text. */
const END_THRESHOLD = 60;
/** Distance from the beginning, in pixels, within which earlier messages are loaded. */
const START_THRESHOLD = 400;
const ESTIMATED_HEIGHT = 140;

type ThreadProps = {
  conversation: Conversation;
  state: ConversationState;
  onShowListings: (messageId: string) => void;
};

/** Messages of a conversation. Those in view only are in the page; the answer that is being written follows them. */
export function Thread({ conversation, state, onShowListings }: ThreadProps) {
  const texts = usePartMessages(chatMessages);
  const { messages, live, pendingText, hasEarlier } = state;
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const isFollowing = useRef(true);
  const [isAway, setIsAway] = useState(false);
  const shown = messages.filter(({ id }) => id !== live?.replaces);
  const virtualizer = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ESTIMATED_HEIGHT,
    getItemKey: (index) => shown[index]?.id ?? index,
    anchorTo: 'end',
    overscan: 4,
  });

  const undo = useCallback((id: string) => void conversation.undo(id), [conversation]);
  const retry = useCallback(() => void conversation.retry(), [conversation]);
  const goToEnd = () => {
    const { current: element } = scroller;
    if (element !== null) element.scrollTop = element.scrollHeight;
  };
  useEffect(() => {
    if (content.current === null) return undefined;
    const observer = new ResizeObserver(() => {
      if (isFollowing.current) goToEnd();
    });
    observer.observe(content.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    isFollowing.current = true;
    goToEnd();
  }, [pendingText !== undefined]);

  const onScroll = () => {
    const { current: element } = scroller;
    if (element === null) return;
    const distance = element.scrollHeight - element.clientHeight - element.scrollTop;
    isFollowing.current = distance < END_THRESHOLD;
    setIsAway(!isFollowing.current);
    if (element.scrollTop < START_THRESHOLD && hasEarlier) void conversation.loadEarlier();
  };
  // The last answer of the conversation, whatever arrived after it.
  const lastAnswer = shown.findLast(({ unasked }) => unasked !== true);
  return (
    <div className={classes.thread}>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={onScroll}
        role="group"
        aria-label={texts.conversation}
        tabIndex={0}
      >
        <div ref={content} className={classes.content}>
          {hasEarlier && <p className={classes.earlier}>{texts.loading}</p>}
          <div className={classes.virtual} style={{ height: virtualizer.getTotalSize() }}>
            {virtualizer.getVirtualItems().map(({ key, index, start }) => {
              const message = shown[index];
              if (message === undefined) return null;
              const canRetry = message === lastAnswer && live === undefined;
              return (
                <div
                  key={key}
                  ref={virtualizer.measureElement}
                  data-index={index}
                  className={classes.item}
                  style={{ transform: `translateY(${start}px)` }}
                >
                  <StoredMessage
                    message={message}
                    steps={conversation.getSteps(message)}
                    onUndo={undo}
                    onShowListings={onShowListings}
                    onRetry={canRetry && message.status !== undefined ? retry : undefined}
                  />
                </div>
              );
            })}
          </div>
          {pendingText !== undefined && <Question text={pendingText} isPending />}
          {live && <LiveMessage {...live} onUndo={undo} />}
        </div>
      </div>
      {isAway && (
        <ActionIcon
          className={classes.toEnd}
          variant="default"
          size="lg"
          radius="xl"
          aria-label={texts.toEnd}
          onClick={goToEnd}
        >
          <IconArrowDown size={18} aria-hidden />
        </ActionIcon>
      )}
    </div>
  );
}
