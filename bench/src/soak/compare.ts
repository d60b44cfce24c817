import { type Table, TABLES, type Sample } from './sample.ts';
import { median, slope } from '../statistics.ts';

/** Figure of a sample and its permitted growth. */
export type Figure = {
  name: string;
  unit: string;
  of: (sample: Sample) => number;
  /** Maximum ratio; undefined if growth is by design. */
  most: number | undefined;
  /** Minimum of both values for the ratio. */
  negligible?: number;
  /** Permitted growth in an hour, as a share of the initial value; unlimited by default. */
  mostPerHour?: number;
  /** Summary of the samples of a window; the median by default. */
  by?: (values: readonly number[]) => number;
};

/** Figure at the beginning and at the end, and its slope over all samples. */
export type Comparison = Omit<Figure, 'of' | 'by'> & {
  first: number;
  last: number;
  ratio: number;
  perHour: number;
};

const HOUR_SECONDS = 3600;
const WINDOW_SECONDS = 5 * 60;
/** Window as a share of a shorter run. */
const WINDOW_SHARE = 1 / 6;

/** Default threshold of autovacuum: dead rows as a share of live ones, plus a constant. */
const VACUUM = { share: 0.2, rows: 50 };

/** Returns the maximum, because dead rows vary with each vacuum. */
const getMax = (values: readonly number[]): number => Math.max(...values);

/** Returns the minimum, which shows leaks despite temporary files in use. */
const getMin = (values: readonly number[]): number => Math.min(...values);

/** Tables that grow by design: history stays, and unused images stay for days. */
const GROWING_TABLES: ReadonlySet<Table> = new Set(['listing_snapshots', 'images']);

/** Permitted growth in an hour as a share of the initial value. */
const MAX_HOURLY_GROWTH = 0.1;

/** Compared figures, in the order of the table. */
const FIGURES: readonly Figure[] = [
  {
    name: 'claim',
    unit: 'ms',
    of: ({ claimMs }) => claimMs,
    most: 1.5,
    mostPerHour: MAX_HOURLY_GROWTH,
  },
  { name: 'ingest p95', unit: 'ms', of: ({ ingestP95 }) => ingestP95, most: 1.5 },
  { name: 'fulltext p95', unit: 'ms', of: ({ searchP95 }) => searchP95.fulltext, most: 1.5 },
  { name: 'similar p95', unit: 'ms', of: ({ searchP95 }) => searchP95.similar, most: 1.5 },
  { name: 'hybrid p95', unit: 'ms', of: ({ searchP95 }) => searchP95.hybrid, most: 1.5 },
  {
    name: 'heap after collection',
    unit: 'MiB',
    of: ({ heapMiB }) => heapMiB,
    most: 1.1,
    mostPerHour: MAX_HOURLY_GROWTH,
  },
  {
    name: 'memory of the process',
    unit: 'MiB',
    of: ({ rssMiB }) => rssMiB,
    most: 1.1,
    mostPerHour: MAX_HOURLY_GROWTH,
  },
  { name: 'descriptors', unit: '', of: ({ descriptors }) => descriptors, most: 1.25 },
  { name: 'temporary files', unit: '', of: (one) => one.temporaryFiles, most: 1, by: getMin },
  ...TABLES.flatMap((name): Figure[] => {
    const mostSize = GROWING_TABLES.has(name) ? undefined : 1.5;
    return [
      {
        name: `${name}: dead rows`,
        unit: 'per live row',
        of: countDeadPerLive(name),
        most: 2,
        negligible: VACUUM.share,
        by: getMax,
      },
      { name: `${name}: table`, unit: 'MiB', of: readSize(name, 'heapMiB'), most: mostSize },
      { name: `${name}: indexes`, unit: 'MiB', of: readSize(name, 'indexesMiB'), most: mostSize },
    ];
  }),
];

function readSize(table: Table, figure: 'heapMiB' | 'indexesMiB') {
  return ({ tables }: Sample): number => tables[table][figure];
}

/**
 * Returns dead rows per live row; a share of all rows could not exceed 1. Tables below 250 live rows count
 * as 250, because the constant of autovacuum's threshold outweighs its share there.
 */
function countDeadPerLive(table: Table) {
  return ({ tables }: Sample): number => {
    const { live, dead } = tables[table];
    return dead / Math.max(live, VACUUM.rows / VACUUM.share);
  };
}

/**
 * Compares the last five minutes with the first, or the last sixth of a shorter run with its first.
 * @param samples At least one sample.
 * @param seconds Duration of the run.
 */
export function compare(samples: readonly Sample[], seconds: number): Comparison[] {
  const window = Math.min(WINDOW_SECONDS, seconds * WINDOW_SHARE);
  const begin = samples.filter((sample) => sample.seconds <= window);
  const end = samples.filter((sample) => sample.seconds > seconds - window);
  // A window always has at least one sample.
  const firsts = begin.length > 0 ? begin : samples.slice(0, 1);
  const lasts = end.length > 0 ? end : samples.slice(-1);
  return FIGURES.map(({ of, by = median, ...figure }) => {
    const [first, last] = [by(firsts.map(of)), by(lasts.map(of))];
    const { negligible = 0 } = figure;
    const ratio = growth(Math.max(first, negligible), Math.max(last, negligible));
    const perHour = HOUR_SECONDS * slope(samples.map((one) => [one.seconds, of(one)]));
    return { ...figure, first, last, ratio, perHour };
  });
}

/** Returns the growth ratio; two zeros have the ratio 1. */
function growth(first: number, last: number): number {
  return first === last ? 1 : last / first;
}
