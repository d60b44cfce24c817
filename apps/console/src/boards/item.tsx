import { IconArrowDown, IconArrowUp, IconMessage, IconTrash } from '@tabler/icons-react';
import { readField } from '../cards/dialogs.tsx';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { request } from '../api.ts';
import { CardSkeletons, ListingCard } from '../cards/card.tsx';
import { useLanguage, useMessages } from '../i18n/language.tsx';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { type Listing, STATUSES } from '../listings/types.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import classes from './boards.module.css';
import { boardMessages } from './messages.ts';
import { commentsQuery, type Item, type OpenBoard, VERDICTS, type Verdict } from './queries.ts';

const MAX_TEXT_LENGTH = 4000;

type ItemProps = {
  board: OpenBoard;
  item: Item;
  index: number;
  userId: string;
  listing: Listing | undefined;
  isLoading: boolean;
  /** Called with the item that the server answered. */
  onUpdate: (item: Item) => void;
  /** Called when the board must be read again. */
  onChange: () => void;
};

/** Listing of a board with its status, verdicts, note and comments. Plain elements, because a board has many. */
export function BoardItem(props: ItemProps) {
  const { board, item, index, userId, listing, isLoading, onUpdate, onChange } = props;
  const texts = usePartMessages(boardMessages);
  const { statuses } = useMessages().listings;
  const { listing_id: id, status } = item;
  const path = `/boards/${board.id}/items/${id}`;
  const change = useMutation({
    mutationFn: (body: Record<string, unknown>) =>
      request<Item>(`/boards/${board.id}/items`, {
        method: 'POST',
        body: { listing_id: id, ...body },
      }),
    onSuccess: (changed, body) => ('position' in body ? onChange() : onUpdate(changed)),
  });
  const decide = useMutation({
    mutationFn: (verdict: Verdict | null) =>
      request<Item>(`${path}/verdict`, { method: 'PUT', body: { verdict } }),
    onSuccess: onUpdate,
  });
  const remove = useMutation({
    mutationFn: () => request(path, { method: 'DELETE' }),
    onSuccess: onChange,
  });
  const canEdit = board.role !== 'viewer';
  const own = item.verdicts.find(({ user_id: user }) => user === userId)?.verdict;
  return (
    <li className={classes.item}>
      {listing ? (
        <ListingCard listing={listing} />
      ) : isLoading ? (
        <CardSkeletons count={1} />
      ) : (
        <p className={classes.missing}>{texts.missing(id)}</p>
      )}
      <div className={classes.tools}>
        <label className={classes.status}>
          <span className={classes.hidden}>{texts.status}</span>
          <select
            value={status ?? ''}
            disabled={!canEdit}
            onChange={({ currentTarget: { value } }) =>
              change.mutate({ status: value === '' ? null : value })
            }
          >
            <option value="">{texts.noStatus}</option>
            {STATUSES.map((value) => (
              <option key={value} value={value}>
                {statuses[value]}
              </option>
            ))}
          </select>
        </label>
        {board.role !== null && (
          <div role="group" aria-label={texts.verdict} className={classes.verdicts}>
            {VERDICTS.map((value) => (
              <button
                key={value}
                type="button"
                aria-pressed={own === value}
                data-verdict={value}
                onClick={() => decide.mutate(own === value ? null : value)}
              >
                {texts.verdicts[value]}
              </button>
            ))}
          </div>
        )}
        <Verdicts board={board} item={item} />
        {canEdit && (
          <div className={classes.order}>
            <button
              type="button"
              aria-label={`${texts.moveUp}: #${id}`}
              disabled={index === 0}
              onClick={() => change.mutate({ position: index - 1 })}
            >
              <IconArrowUp size={16} aria-hidden />
            </button>
            <button
              type="button"
              aria-label={`${texts.moveDown}: #${id}`}
              disabled={index === board.items.length - 1}
              onClick={() => change.mutate({ position: index + 1 })}
            >
              <IconArrowDown size={16} aria-hidden />
            </button>
            <button
              type="button"
              aria-label={`${texts.removeItem}: #${id}`}
              onClick={() => remove.mutate()}
            >
              <IconTrash size={16} aria-hidden />
            </button>
          </div>
        )}
      </div>
      <Note
        note={item.note}
        canEdit={canEdit}
        isPending={change.isPending}
        onSave={(note) => change.mutateAsync({ note })}
      />
      <Comments path={path} board={board} item={item} userId={userId} onChange={onChange} />
    </li>
  );
}

function Verdicts({ board, item }: { board: OpenBoard; item: Item }) {
  const texts = usePartMessages(boardMessages);
  if (item.verdicts.length === 0) return null;
  return (
    <ul className={classes.given} aria-label={texts.verdictsOfAll}>
      {item.verdicts.map(({ user_id: id, verdict }) => (
        <li key={id} data-verdict={verdict}>
          {board.members.find(({ user_id: user }) => user === id)?.display_name ||
            texts.deletedUser}
          : {texts.verdicts[verdict]}
        </li>
      ))}
    </ul>
  );
}

function Note(props: {
  note: string | null;
  canEdit: boolean;
  isPending: boolean;
  onSave: (note: string | null) => Promise<unknown>;
}) {
  const { note, canEdit, onSave } = props;
  const texts = usePartMessages(boardMessages);
  const { save, cancel, edit } = usePartMessages(words);
  const [isEditing, setIsEditing] = useState(false);
  if (isEditing) {
    return (
      <form
        className={classes.noteForm}
        onSubmit={(event) => {
          event.preventDefault();
          const text = readField(event.currentTarget, 'note');
          // The text stays in the field if it was not saved.
          onSave(text === '' ? null : text).then(
            () => setIsEditing(false),
            () => undefined,
          );
        }}
      >
        <textarea
          name="note"
          aria-label={texts.note}
          defaultValue={note ?? ''}
          maxLength={MAX_TEXT_LENGTH}
          rows={2}
          // The person has just asked to write here.
          autoFocus
        />
        <button type="submit">{save}</button>
        <button type="button" onClick={() => setIsEditing(false)}>
          {cancel}
        </button>
      </form>
    );
  }
  if (note === null && !canEdit) return null;
  return (
    <div className={classes.note}>
      {note !== null && <p dir="auto">{note}</p>}
      {canEdit && (
        <button type="button" className={classes.textButton} onClick={() => setIsEditing(true)}>
          {note === null ? texts.addNote : edit}
        </button>
      )}
    </div>
  );
}

type CommentsProps = {
  path: string;
  board: OpenBoard;
  item: Item;
  userId: string;
  onChange: () => void;
};

function Comments({ path, board, item, userId, onChange }: CommentsProps) {
  const texts = usePartMessages(boardMessages);
  const { language } = useLanguage();
  const queryClient = useQueryClient();
  const [isOpen, setIsOpen] = useState(false);
  const [text, setText] = useState('');
  const query = commentsQuery(path);
  const { data, error } = useQuery({ ...query, enabled: isOpen });
  const onSuccess = async () => {
    await queryClient.invalidateQueries({ queryKey: query.queryKey });
    onChange();
  };
  const add = useMutation({
    mutationFn: () => request(`${path}/comments`, { method: 'POST', body: { text: text.trim() } }),
    onSuccess: () => {
      setText('');
      return onSuccess();
    },
  });
  const remove = useMutation({
    mutationFn: (id: string) => request(`${path}/comments/${id}`, { method: 'DELETE' }),
    onSuccess,
  });
  return (
    <div className={classes.comments}>
      <button
        type="button"
        className={classes.textButton}
        aria-expanded={isOpen}
        onClick={() => setIsOpen(!isOpen)}
      >
        <IconMessage size={16} aria-hidden /> {texts.comments(item.comment_count)}
      </button>
      {isOpen && (
        <>
          <ul>
            {data?.map(
              ({ id, user_id: author, display_name: name, text: comment, created_at: time }) => (
                <li key={id}>
                  <p dir="auto">
                    <b>{name || texts.deletedUser}</b> {comment}
                  </p>
                  <small>
                    {new Date(time).toLocaleString(language, {
                      dateStyle: 'medium',
                      timeStyle: 'short',
                    })}
                  </small>
                  {(author === userId || board.role === 'owner' || board.role === null) && (
                    <button
                      type="button"
                      className={classes.icon}
                      aria-label={texts.removeComment}
                      onClick={() => remove.mutate(id)}
                    >
                      <IconTrash size={14} aria-hidden />
                    </button>
                  )}
                </li>
              ),
            )}
          </ul>
          {error && <ProblemNotice error={error} />}
          <form
            className={classes.noteForm}
            onSubmit={(event) => {
              event.preventDefault();
              if (text.trim() !== '') add.mutate();
            }}
          >
            <textarea
              value={text}
              rows={1}
              maxLength={MAX_TEXT_LENGTH}
              aria-label={texts.writeComment}
              placeholder={texts.writeComment}
              onChange={({ currentTarget }) => setText(currentTarget.value)}
            />
            <button type="submit" disabled={add.isPending}>
              {texts.send}
            </button>
          </form>
        </>
      )}
    </div>
  );
}
