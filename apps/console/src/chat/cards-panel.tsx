import { useQuery } from '@tanstack/react-query';
import { CardSkeletons, ListingCard } from '../cards/card.tsx';
import cardClasses from '../cards/cards.module.css';
import { batchQuery } from '../cards/queries.ts';
import { usePartMessages } from '../i18n/part.ts';
import { ProblemNotice } from '../shell/problem.tsx';
import { settingsQuery } from '../start/settings.ts';
import classes from './chat.module.css';
import { chatMessages } from './messages.ts';

/** Listings of an answer. `reasons` are those of a digest, by listing. */
export function CardsPanel({
  ids,
  reasons,
}: {
  ids: readonly number[];
  reasons: ReadonlyMap<number, string>;
}) {
  const texts = usePartMessages(chatMessages);
  const { data: settings, isPending: isSettingsPending } = useQuery(settingsQuery);
  const { data, error, isPending, refetch } = useQuery({
    ...batchQuery(ids, settings?.currency ?? null),
    enabled: ids.length > 0 && !isSettingsPending,
  });
  if (ids.length === 0) return <p className={classes.empty}>{texts.noListings}</p>;
  if (error) return <ProblemNotice error={error} onRetry={() => void refetch()} />;
  if (isPending) return <CardSkeletons count={Math.min(ids.length, 6)} />;
  return data.map((listing) => {
    const reason = reasons.get(listing.listing_id);
    return (
      <ListingCard
        key={listing.listing_id}
        listing={listing}
        badge={
          reason !== undefined && (
            <span className={cardClasses.badge}>{texts.finds[reason] ?? reason}</span>
          )
        }
      />
    );
  });
}
