import { useElementSize } from '@mantine/hooks';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLanguage } from '../i18n/language.tsx';
import { formatDay, formatPrice } from '../listings/format.ts';
import type { PriceChange } from '../listings/types.ts';
import { buildPath, type Chart, type ChartPoint, createChart } from './chart.ts';
import { pricesQuery } from './queries.ts';
import classes from './listing.module.css';

const HEIGHT = 180;
const MARGIN = { top: 12, right: 12, bottom: 26, left: 88 };
/** Number of colours of lines. */
const COLORS = 4;

/** Prices of a property over time, with the adverts of all sources, as a chart and as a table. */
export function Prices({ id, currency }: { id: number; currency: string | null | undefined }) {
  const texts = useLanguage().messages.listings.page;
  const { data: changes } = useQuery(pricesQuery({ id, currency }));
  const [openedAt] = useState(() => Date.now());
  if (changes === undefined) return null;
  const chart = createChart(changes, openedAt);
  if (chart === undefined) return <p className={classes.dim}>{texts.noPrices}</p>;
  return (
    <>
      {chart.lines.length > 1 && (
        <p className={classes.dim}>{texts.oneProperty(chart.lines.length)}</p>
      )}
      {changes.length > 1 && <ChartImage chart={chart} />}
      <details className={classes.disclosure} open={changes.length === 1}>
        <summary>{texts.pricesTable}</summary>
        <PriceTable changes={changes.toReversed()} />
      </details>
    </>
  );
}

function ChartImage({ chart }: { chart: Chart }) {
  const { language, messages } = useLanguage();
  const { currency, lines, minAmount, maxAmount, from, to } = chart;
  const format = (amount: number) => formatPrice({ amount, currency }, language);
  const { ref, width } = useElementSize();
  const innerWidth = width - MARGIN.left - MARGIN.right;
  const innerHeight = HEIGHT - MARGIN.top - MARGIN.bottom;
  const place = ({ time, amount }: ChartPoint) => {
    const share = (time - from) / (to - from || 1);
    // A price that has never changed lies in the middle.
    const depth = maxAmount === minAmount ? 0.5 : (maxAmount - amount) / (maxAmount - minAmount);
    return [
      Math.round(MARGIN.left + share * innerWidth),
      Math.round(MARGIN.top + depth * innerHeight),
    ] as const;
  };
  return (
    <figure ref={ref} className={classes.chart}>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={messages.listings.page.priceChart(format(minAmount), format(maxAmount))}
      >
        {[...new Set([maxAmount, minAmount])].map((amount) => {
          const [, y] = place({ time: from, amount });
          return (
            <g key={amount}>
              <line x1={MARGIN.left} x2={width - MARGIN.right} y1={y} y2={y} />
              <text x={MARGIN.left - 10} y={y + 4} textAnchor="end">
                {format(amount)}
              </text>
            </g>
          );
        })}
        <text x={MARGIN.left} y={HEIGHT - 4}>
          {formatDay(from, language)}
        </text>
        <text x={width - MARGIN.right} y={HEIGHT - 4} textAnchor="end">
          {formatDay(to, language)}
        </text>
        {lines.map(({ id, points }, index) => (
          <g key={id} className={classes.line} data-color={index % COLORS}>
            <path d={buildPath(points, place)} />
            {points.slice(0, -1).map((point) => {
              const [x, y] = place(point);
              return <circle key={point.time} cx={x} cy={y} r={3.5} />;
            })}
          </g>
        ))}
      </svg>
      {lines.length > 1 && (
        <figcaption>
          {lines.map(({ id, source }, index) => (
            <span key={id} data-color={index % COLORS}>
              {source}
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

function PriceTable({ changes }: { changes: readonly PriceChange[] }) {
  const { language, messages } = useLanguage();
  const { page: texts, noPrice } = messages.listings;
  return (
    <table className={classes.table}>
      <thead>
        <tr>
          <th scope="col">{texts.date}</th>
          <th scope="col">{texts.price}</th>
          <th scope="col">{texts.source}</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(
          ({ listing_id: id, source_slug: source, price, currency, changed_at: time }) => (
            <tr key={`${id} ${time}`}>
              <td>{formatDay(time, language)}</td>
              <td>
                {price === null || currency === null
                  ? noPrice
                  : formatPrice({ amount: price, currency }, language)}
              </td>
              <td>{source}</td>
            </tr>
          ),
        )}
      </tbody>
    </table>
  );
}
