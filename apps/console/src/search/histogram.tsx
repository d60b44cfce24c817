import { useLanguage } from '../i18n/language.tsx';
import type { Bucket } from './queries.ts';
import classes from './search.module.css';

const HEIGHT = 48;

/** Numbers of listings by price or area. A bar can be clicked; the fields below it take any limits. */
export function Histogram({
  label,
  buckets,
  min = -Infinity,
  max = Infinity,
  onChoose,
}: {
  label: string;
  buckets: readonly Bucket[];
  min?: number | undefined;
  max?: number | undefined;
  onChoose: (bucket: Bucket) => void;
}) {
  const { language, messages } = useLanguage();
  if (buckets.length < 2) return null;
  const highest = Math.max(...buckets.map(({ count }) => count));
  const format = (value: number) => value.toLocaleString(language);
  return (
    <>
      <svg
        className={classes.histogram}
        viewBox={`0 0 ${buckets.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        aria-hidden
      >
        {buckets.map((bucket, index) => {
          // The smallest bar remains visible.
          const height = Math.max(2, (bucket.count / highest) * HEIGHT);
          return (
            <g
              key={bucket.from}
              data-inside={bucket.to > min && bucket.from < max}
              onClick={() => onChoose(bucket)}
            >
              <rect x={index} width={1} height={HEIGHT} opacity={0} />
              <rect x={index + 0.06} y={HEIGHT - height} width={0.88} height={height} />
            </g>
          );
        })}
      </svg>
      <ul className={classes.unseen} aria-label={label}>
        {buckets.map(({ from, to, count }) => (
          <li key={from}>
            {messages.listings.bucket(
              format(from),
              format(to),
              messages.listings.found(count, false),
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
