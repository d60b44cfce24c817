import type { Message, MemoryChange } from '@oselya/chat-client';
import { Button } from '@mantine/core';
import {
  IconAlertTriangle,
  IconBrain,
  IconCheck,
  IconLoader2,
  IconSearch,
} from '@tabler/icons-react';
import { lazy, memo, Suspense } from 'react';
import { AddressLink } from '../cards/address-link.tsx';
import { usePartMessages } from '../i18n/part.ts';
import classes from './chat.module.css';
import { chatMessages } from './messages.ts';
import { collectListingIds, createSearchAddress, describeInput, type Step } from './steps.ts';

// The parser is most of the page's scripts, and a conversation can be read without it.
const importMarkdown = () => import('./markdown.tsx');
const Markdown = lazy(async () => ({ default: (await importMarkdown()).Markdown }));
const GrowingMarkdown = lazy(async () => ({ default: (await importMarkdown()).GrowingMarkdown }));

type Actions = {
  onUndo: (stepId: string) => void;
  onShowListings: (messageId: string) => void;
};

type StoredMessageProps = Actions & {
  message: Message;
  steps: readonly Step[];
  /** Asks for another answer; absent unless the message is the last answer, and incomplete. */
  onRetry: (() => void) | undefined;
};

/** Returns the listings of a message: those that its tools read, or the finds of a saved search. */
export const listMessageListings = (message: Message, steps: readonly Step[]): number[] =>
  message.finds === undefined
    ? collectListingIds(steps)
    : message.finds.map(({ listing_id: id }) => id);

/** Stored message: a question, an answer or the digest of a saved search. */
export const StoredMessage = memo(function StoredMessage(props: StoredMessageProps) {
  const { message, steps, onUndo, onShowListings, onRetry } = props;
  const texts = usePartMessages(chatMessages);
  if (message.role === 'user') return <Question text={message.content} />;
  const listingIds = listMessageListings(message, steps);
  return (
    <article className={classes.answer} aria-label={texts.assistant}>
      {message.unasked === true && (
        <p className={classes.label}>
          <IconSearch size={14} aria-hidden /> {texts.digest}
        </p>
      )}
      <Steps steps={steps} />
      <div className={classes.markdown} dir="auto">
        <Suspense fallback={message.content}>
          <Markdown text={message.content} />
        </Suspense>
      </div>
      <MemoryChips steps={steps} onUndo={onUndo} />
      {listingIds.length > 0 && (
        <button
          type="button"
          className={classes.listings}
          onClick={() => onShowListings(message.id)}
        >
          {texts.showListings(listingIds.length)}
        </button>
      )}
      {message.status !== undefined && (
        <p className={classes.note}>
          <IconAlertTriangle size={16} aria-hidden />
          <span>
            {texts.status[message.status]} <ProblemText problem={message.problem} />
          </span>
          {onRetry && (
            <Button size="compact-sm" variant="light" onClick={onRetry}>
              {texts.retry}
            </Button>
          )}
        </p>
      )}
    </article>
  );
});

/** Message of the user. */
export function Question({ text, isPending = false }: { text: string; isPending?: boolean }) {
  const texts = usePartMessages(chatMessages);
  return (
    <article
      className={classes.question}
      aria-label={texts.you}
      data-pending={isPending || undefined}
    >
      <p dir="auto">{text}</p>
      {isPending && <small>{texts.sending}</small>}
    </article>
  );
}

/** Answer that is being written. */
export function LiveMessage({
  text,
  steps,
  isCancelling,
  onUndo,
}: Pick<Actions, 'onUndo'> & { text: string; steps: readonly Step[]; isCancelling: boolean }) {
  const texts = usePartMessages(chatMessages);
  return (
    <article className={classes.answer} aria-label={texts.assistant} aria-busy="true">
      <Steps steps={steps} />
      <div className={classes.markdown} dir="auto">
        <Suspense fallback={text}>
          <GrowingMarkdown text={text} />
        </Suspense>
      </div>
      <MemoryChips steps={steps} onUndo={onUndo} />
      <p className={classes.writing}>
        <span className={classes.pulse} aria-hidden="true" />
        {isCancelling ? texts.stopping : texts.writing}
      </p>
    </article>
  );
}

/** Error of a stored answer, which older versions write differently. */
function ProblemText({ problem }: { problem: unknown }) {
  const { title, code } = (problem ?? {}) as { title?: unknown; code?: unknown };
  if (typeof title !== 'string') return null;
  return (
    <>
      {title} {typeof code === 'string' && <code>{code}</code>}
    </>
  );
}

const STEP_ICONS = { running: IconLoader2, done: IconCheck, failed: IconAlertTriangle };

function Steps({ steps }: { steps: readonly Step[] }) {
  const texts = usePartMessages(chatMessages);
  // A change of the memory is shown as a chip.
  const shown = steps.filter(({ status, changes }) => status !== 'done' || changes.length === 0);
  if (shown.length === 0) return null;
  return (
    <ul className={classes.steps}>
      {shown.map((step) => {
        const Icon = STEP_ICONS[step.status];
        const address = createSearchAddress(step);
        const isSearch = step.tool.endsWith('_listings') && step.status === 'done';
        return (
          <li key={step.id} data-status={step.status}>
            <Icon size={16} aria-label={texts.toolStates[step.status]} />
            <span className={classes.stepText}>
              <b>{texts.tools[step.tool] ?? step.title}</b> {describeInput(step)}
            </span>
            {isSearch && (
              <span className={classes.count}>{texts.found(step.listingIds.length)}</span>
            )}
            {address !== undefined && (
              <AddressLink href={address} title={texts.openSearch} aria-label={texts.openSearch}>
                <IconSearch size={16} aria-hidden />
              </AddressLink>
            )}
          </li>
        );
      })}
    </ul>
  );
}

function MemoryChips({ steps, onUndo }: { steps: readonly Step[] } & Pick<Actions, 'onUndo'>) {
  const changed = steps.filter(({ changes }) => changes.length > 0);
  if (changed.length === 0) return null;
  return (
    <ul className={classes.chips}>
      {changed.map((step) => (
        <MemoryChip key={step.id} step={step} onUndo={onUndo} />
      ))}
    </ul>
  );
}

function MemoryChip({ step, onUndo }: { step: Step } & Pick<Actions, 'onUndo'>) {
  const texts = usePartMessages(chatMessages);
  const { id, changes, undo } = step;
  const describe = ({ value, previous }: MemoryChange) =>
    value === null ? texts.forgotten : previous === null ? texts.remembered : texts.changed;
  return (
    <li data-undone={undo === 'done' || undefined}>
      <IconBrain size={16} aria-hidden />
      {changes.map((change) => (
        <span key={`${change.category}/${change.key}`}>
          {describe(change)}: {change.key} — {change.value ?? change.previous}
        </span>
      ))}
      {undo === 'done' && <em>{texts.undone}</em>}
      {undo === 'failed' && <em>{texts.undoFailed}</em>}
      {(undo === 'possible' || undo === 'running') && (
        <button type="button" disabled={undo === 'running'} onClick={() => onUndo(id)}>
          {texts.undo}
        </button>
      )}
    </li>
  );
}
