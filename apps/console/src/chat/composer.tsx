import { ActionIcon, Textarea } from '@mantine/core';
import { IconArrowUp, IconPlayerStopFilled } from '@tabler/icons-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { usePartMessages } from '../i18n/part.ts';
import classes from './chat.module.css';
import type { DraftStore } from './drafts.ts';
import { chatMessages } from './messages.ts';

/** Maximum length of a message, in Unicode code points, as in the protocol. */
const MAX_LENGTH = 16_000;

type ComposerProps = {
  /** Session of the draft, or `new`. */
  draftId: string;
  drafts: DraftStore;
  /** Beginning of the text, before the stored draft. */
  initialText?: string;
  /** Whether a message is being sent, which is shown elsewhere. */
  isPending: boolean;
  onSend: (text: string) => void;
  /** Stops the answer that is being written; absent when there is none. */
  onStop?: (() => void) | undefined;
  /** Whether nothing can be sent yet. */
  isDisabled?: boolean;
  /** Controls beside the button. */
  children?: ReactNode;
};

/** Field of a message. What is typed survives a reload, and also a sign-out. */
export function Composer({
  draftId,
  drafts,
  initialText = '',
  isPending,
  onSend,
  onStop,
  isDisabled = false,
  children,
}: ComposerProps) {
  const texts = usePartMessages(chatMessages);
  const field = useRef<HTMLTextAreaElement>(null);
  const [text, setText] = useState(() => {
    const draft = drafts.readDraft(draftId) ?? '';
    return draft.startsWith(initialText) ? draft : initialText + draft;
  });
  useEffect(() => {
    // A message that was rejected comes back as the draft.
    const draft = drafts.readDraft(draftId);
    if (!isPending && draft !== undefined) setText(draft);
  }, [drafts, draftId, isPending]);

  const excess = Array.from(text).length - MAX_LENGTH;
  const canSend =
    text.trim() !== '' && excess <= 0 && !isDisabled && !isPending && onStop === undefined;
  const change = (value: string) => {
    setText(value);
    drafts.writeDraft(draftId, value);
  };
  const send = () => {
    if (!canSend) return;
    change('');
    onSend(text);
    field.current?.focus();
  };
  return (
    <form
      className={classes.composer}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <Textarea
        ref={field}
        autosize
        minRows={1}
        maxRows={10}
        variant="unstyled"
        value={text}
        aria-label={texts.placeholder}
        placeholder={texts.placeholder}
        error={excess > 0 && texts.tooLong(excess)}
        onChange={({ currentTarget }) => change(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          send();
        }}
      />
      <div className={classes.controls}>
        <span className={classes.hint}>{texts.keys}</span>
        {children}
        {onStop ? (
          <ActionIcon size="lg" radius="xl" aria-label={texts.stop} onClick={onStop}>
            <IconPlayerStopFilled size={16} aria-hidden />
          </ActionIcon>
        ) : (
          <ActionIcon
            type="submit"
            size="lg"
            radius="xl"
            aria-label={texts.send}
            disabled={!canSend}
          >
            <IconArrowUp size={20} aria-hidden />
          </ActionIcon>
        )}
      </div>
    </form>
  );
}
