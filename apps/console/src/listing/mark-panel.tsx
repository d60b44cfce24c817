import { IconEye, IconEyeOff, IconStar, IconStarFilled } from '@tabler/icons-react';
import { useState } from 'react';
import { useMessages } from '../i18n/language.tsx';
import { useChangeMark } from '../listings/marks.ts';
import { CompareButton, StatusSelect } from '../listings/row.tsx';
import type { Mark } from '../listings/types.ts';
import classes from './listing.module.css';

const RATINGS = [1, 2, 3, 4, 5];

type MarkProps = { id: number; mark: Mark | undefined };

/** The user's own mark on a listing. */
export function MarkPanel({ id, mark }: MarkProps) {
  const { mark: texts } = useMessages().listings;
  const change = useChangeMark();
  const isHidden = mark?.hidden === true;
  const rating = mark?.rating ?? 0;
  return (
    <section className={classes.mark} aria-labelledby="mark">
      <h2 id="mark">{texts.title}</h2>
      <div className={classes.markRow}>
        <StatusSelect id={id} mark={mark} />
        <CompareButton id={id} />
        <button
          type="button"
          className={classes.hide}
          onClick={() => change({ id, changes: { hidden: !isHidden } })}
        >
          {isHidden ? <IconEye size={18} aria-hidden /> : <IconEyeOff size={18} aria-hidden />}
          {isHidden ? texts.show : texts.hide}
        </button>
      </div>
      <div className={classes.stars} role="group" aria-label={texts.rating}>
        {RATINGS.map((value) => {
          const Star = value <= rating ? IconStarFilled : IconStar;
          return (
            <button
              key={value}
              type="button"
              aria-label={texts.stars(value)}
              aria-pressed={value === rating}
              onClick={() => change({ id, changes: { rating: value === rating ? null : value } })}
            >
              <Star size={20} aria-hidden />
            </button>
          );
        })}
      </div>
      <MarkForm key={id} id={id} mark={mark} />
    </section>
  );
}

function MarkForm({ id, mark }: MarkProps) {
  const { mark: texts } = useMessages().listings;
  const change = useChangeMark();
  const [isChanged, setChanged] = useState(false);
  return (
    <form
      className={classes.markForm}
      onChange={() => setChanged(true)}
      onSubmit={(event) => {
        event.preventDefault();
        const data = new FormData(event.currentTarget);
        const read = (name: string) => (data.get(name) as string).trim();
        const tags = read('tags')
          .split(',')
          .map((tag) => tag.trim())
          .filter(Boolean);
        setChanged(false);
        change({
          id,
          changes: {
            note: read('note') || null,
            follow_up_on: read('follow_up_on') || null,
            tags: [...new Set(tags)],
          },
        });
      }}
    >
      <label>
        {texts.note}
        <textarea
          name="note"
          rows={3}
          maxLength={4000}
          defaultValue={mark?.note ?? ''}
          placeholder={texts.noteHint}
        />
      </label>
      <label>
        {texts.tags}
        <input name="tags" maxLength={500} defaultValue={mark?.tags.join(', ')} />
      </label>
      <label>
        {texts.followUp}
        <input name="follow_up_on" type="date" defaultValue={mark?.follow_up_on ?? ''} />
      </label>
      {isChanged && <button type="submit">{texts.save}</button>}
    </form>
  );
}
